"""What every request passes before a route: its id, the size limit, and the last resort.

One plain ASGI layer, because each layer costs every request and verify is meant to be fast.
"""

import logging
from uuid import UUID

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import problem
from wyrd.errors import Code, WyrdError
from wyrd.wire.ids import uuid7

REQUEST_ID = b"wyrd-request-id"
SCOPE_KEY = "wyrd.request_id"

_log = logging.getLogger("wyrd.api")


def request_id_of(scope: Scope) -> str:
    """The id of the request in hand."""
    found: str = scope.get(SCOPE_KEY, "")
    return found


class Edge:
    """Echoes or makes `wyrd-request-id`, refuses bodies over `max_body_bytes` (also those that
    announce no length), and turns what nobody caught into `WYRD_SPEC_500_INTERNAL`.

    Paths that start with one of `streamed` are not limited here: their routes count what they
    stream.
    """

    def __init__(self, app: ASGIApp, max_body_bytes: int, streamed: tuple[str, ...] = ()) -> None:
        self.app = app
        self.max_body_bytes = max_body_bytes
        self.streamed = streamed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = length = b""
        for name, value in scope["headers"]:
            if name == REQUEST_ID:
                given = value
            elif name == b"content-length":
                length = value
        request_id = accepted_request_id(given.decode("latin-1")) or uuid7()
        scope[SCOPE_KEY] = request_id
        echoed = (REQUEST_ID, request_id.encode("ascii"))
        started = False

        async def answer(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message.get("headers", ()), echoed]
            await send(message)

        limited = not (self.streamed and scope["path"].startswith(self.streamed))
        try:
            if "\0" in scope["path"] or b"%00" in scope["query_string"]:
                # No id or name holds one, and PostgreSQL fails on it instead of finding nothing.
                raise WyrdError(Code.SPEC_400_VALIDATION, "the address holds a NUL character")
            if limited and length.isdigit() and int(length) > self.max_body_bytes:
                raise self._too_large()
            await self.app(scope, self._counted(receive) if limited else receive, answer)
        except WyrdError as error:
            if started:
                raise
            await problem(error, request_id)(scope, receive, answer)
        except ClientDisconnect:
            _log.debug("request %s: the client went away", request_id)
        except Exception:
            _log.exception("request %s failed: %s %s", request_id, scope["method"], scope["path"])
            if started:
                raise
            failed = WyrdError(Code.SPEC_500_INTERNAL, "the server failed on this request")
            await problem(failed, request_id)(scope, receive, answer)

    def _counted(self, receive: Receive) -> Receive:
        total = 0

        async def counted() -> Message:
            nonlocal total
            message = await receive()
            if message["type"] == "http.request":
                total += len(message.get("body", b""))
                if total > self.max_body_bytes:
                    raise self._too_large()
            return message

        return counted

    def _too_large(self) -> WyrdError:
        return WyrdError(
            Code.SPEC_413_PAYLOAD_TOO_LARGE,
            f"the request body is over {self.max_body_bytes} bytes",
            limit=self.max_body_bytes,
        )


def accepted_request_id(given: str) -> str | None:
    """A caller's id is repeated in answers and logs, so only a UUID is taken as one."""
    if len(given) != 36 or not given.isascii():
        return None
    try:
        UUID(given)
    except ValueError:
        return None
    return given
