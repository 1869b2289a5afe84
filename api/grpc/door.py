"""The server of the gRPC door, which stands beside the HTTP server in one API process."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

import grpc
import grpc.aio

from api.dependencies import TOKEN_HEADER, credential_in
from api.edge import accepted_request_id
from api.grpc.messages import METHOD, Insert, not_as_agreed, read_insert
from api.grpc.statuses import TRAILER, document, sentence, status_of
from api.services import Services
from bifrost.names import TableName
from wyrd.errors import Code, WyrdError
from wyrd.wire.ids import uuid7

MOST_BYTES = 64 * 1024 * 1024
"""Of one message."""

_AT_ONCE = 16
"""Batches that are held at once: what bounds the memory of this door."""
_ARRIVING_SECONDS = 20.0
"""How long a batch may take to arrive once it was its turn."""
_STOPPING_SECONDS = 5.0

_REQUEST_ID = "wyrd-request-id"

_OPTIONS = (
    # Without it a second server on a busy port would start, and take half of its calls.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", MOST_BYTES),
    # The limit is checked before a message is inflated, so nothing is inflated.
    ("grpc.per_message_decompression", 0),
    ("grpc.compression_enabled_algorithms_bitset", 1),
)

_log = logging.getLogger("wyrd.api.grpc")

Requests = AsyncIterator[bytes]
Context = grpc.aio.ServicerContext[Any, Any]


class InsertDoor:
    """Answers `InsertBatch` over cleartext HTTP/2. `port` is where it listens once it is open."""

    port = 0

    def __init__(self, services: Services) -> None:
        self._services = services
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._server: grpc.aio.Server | None = None

    async def open(self) -> None:
        """Raises `WYRD_CLIENT_400_CONFIG_INVALID` when the port is not to be had."""
        settings = self._services.settings
        address = f"[{settings.host}]" if ":" in settings.host else settings.host
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers((_Calls(self._insert),))
        try:
            self.port = server.add_insecure_port(f"{address}:{settings.grpc_port}")
        except RuntimeError as error:
            raise busy(settings.host, settings.grpc_port, str(error)) from None
        await server.start()
        self._server = server
        _log.info("gRPC listens on %s:%d", settings.host, self.port)

    async def close(self) -> None:
        """Take no new calls, and give those under way a little time."""
        if self._server is not None:
            await self._server.stop(_STOPPING_SECONDS)
            self._server = None

    async def _insert(self, requests: Requests, context: Context) -> bytes:
        metadata = _text_of(context.invocation_metadata())
        request_id = accepted_request_id(metadata.get(_REQUEST_ID, "")) or uuid7()
        try:
            return await self._stored(requests, metadata, request_id)
        except WyrdError as error:
            refused = error
        except Exception:
            _log.exception("request %s failed: %s", request_id, METHOD)
            refused = WyrdError(Code.SPEC_500_INTERNAL, "the server failed on this request")
        trailer = ((TRAILER, document(refused, request_id)), (_REQUEST_ID, request_id))
        await context.abort(status_of(refused), sentence(refused), trailer)

    async def _stored(self, requests: Requests, metadata: Mapping[str, str], request_id: str) -> bytes:
        # Before anything is read: nobody unknown makes this process hold megabytes.
        given = metadata.get(TOKEN_HEADER) or metadata.get("authorization")
        caller = await self._services.tokens.caller(credential_in(given))
        async with self._turns:
            insert = await _arrived(requests)
            await self._services.bifrost.scribe.write_arrow(
                caller, TableName.parse(insert.table), str(insert.batch_id), insert.arrow_ipc, request_id
            )
        return insert.acknowledgement


class _Calls(grpc.GenericRpcHandler):
    """The one method there is, taken as a stream of requests: so it is called before a message is read."""

    def __init__(self, insert: Any) -> None:
        self._method: Any = grpc.stream_unary_rpc_method_handler(insert)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return self._method if handler_call_details.method == METHOD else None


async def _arrived(requests: Requests) -> Insert:
    try:
        async with asyncio.timeout(_ARRIVING_SECONDS):
            data = await anext(requests, None)
    except TimeoutError:
        raise WyrdError(
            Code.SERVER_504_REQUEST_TIMEOUT, f"the batch did not arrive within {_ARRIVING_SECONDS:g} s"
        ) from None
    if data is None:
        raise not_as_agreed("the call holds no message")
    return read_insert(data)


def _text_of(metadata: Any) -> dict[str, str]:
    """Metadata by name, the first of each; what is not text is none of ours."""
    found: dict[str, str] = {}
    for name, value in metadata or ():
        if isinstance(value, str):
            found.setdefault(name, value)
    return found


def check_port(host: str, port: int) -> None:
    """Raises `WYRD_CLIENT_400_CONFIG_INVALID` when the port cannot be listened on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise busy(host, port, error.strerror or str(error)) from None


def busy(host: str, port: int, why: str) -> WyrdError:
    """The error of a port that the door cannot have."""
    return WyrdError(
        Code.CLIENT_400_CONFIG_INVALID,
        f"the gRPC door cannot listen on {host}:{port} ({why}); set WYRD_GRPC_PORT to another port, or to 0",
        field="WYRD_GRPC_PORT",
        port=port,
    )
