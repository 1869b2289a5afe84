"""HTTP over httpx: pools, bodies, answers and failures, for both drivers of flows.

Only what makes a request imports this module: httpx costs more to load than the rest of the client.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import httpx

from wyrd._client.flow import FileBody, Reply, Send, Unanswered
from wyrd._client.saving import PIECE, Save, Saving
from wyrd.errors import Code, WyrdError

FAILURES = (httpx.TransportError, httpx.InvalidURL, httpx.DecodingError)
"""Attempts that end in one of these have no answer."""

_CHUNK = 1 << 20
# A proxy of the environment never stands between a client and its own machine.
MOUNTS: dict[str, None] = {"all://localhost": None, "all://127.0.0.1": None, "all://[::1]": None}
LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=4.0)
"""Idle connections go before a server's usual 5 s, or a POST that may not be repeated meets a closed one."""


def chunks(body: FileBody) -> Iterator[bytes]:
    """Stream evidence in pieces of 1 MiB, and stop before the last one if it is not what was hashed."""
    if isinstance(body.source, bytes):
        yield body.source
        return
    digest, left = hashlib.sha256(), body.size
    try:
        with body.source.open("rb") as file:
            while left > 0:
                piece = file.read(min(_CHUNK, left))
                if not piece:
                    break
                digest.update(piece)
                left -= len(piece)
                if left == 0 and (digest.hexdigest() != body.sha256 or file.read(1)):
                    break
                yield piece
                if left == 0:
                    return
    except OSError as error:
        raise WyrdError(
            Code.VERIFICATION_400_INPUT_INVALID,
            f"{body.source} cannot be read: {error.strerror}",
            path=str(body.source),
        ) from None
    if body.size:
        raise WyrdError(
            Code.VERIFICATION_400_INPUT_INVALID,
            f"{body.source} changed while it was being uploaded",
            path=str(body.source),
        )


def sent_headers(effect: Send) -> dict[str, str]:
    """The headers of an effect; a streamed body says how long it is."""
    if isinstance(effect.body, FileBody):
        return {**effect.headers, "content-length": str(effect.body.size)}
    return effect.headers


def reply_of(response: httpx.Response) -> Reply:
    return Reply(response.status_code, dict(response.headers), response.content)


def unanswered(effect: Send, error: Exception) -> Unanswered:
    """What a failed attempt is to a flow."""
    parts = urlsplit(effect.url)
    where = f"{parts.scheme}://{parts.netloc}"
    if isinstance(error, httpx.TimeoutException):
        return Unanswered(f"{where} did not answer within {effect.timeout:g} s", timed_out=True)
    return Unanswered(f"{where} cannot be reached: {str(error) or type(error).__name__}", timed_out=False)


def broken_off(error: Exception) -> Unanswered:
    """What an answer that ends before its end is to a flow."""
    reason = str(error) or type(error).__name__
    return Unanswered(f"an answer broke off: {reason}", timed_out=isinstance(error, httpx.TimeoutException))


def save(effect: Save) -> str:
    """Write the rest of an answer to its file; the SHA-256. Raises `Unanswered`."""
    try:
        with closing(effect.rest) as response, closing(Saving(effect)) as saving:
            for piece in response.iter_bytes(PIECE):
                saving.write(piece)
            return saving.finish()
    except FAILURES as error:
        raise broken_off(error) from None


def open_pool() -> httpx.Client:
    return httpx.Client(mounts=MOUNTS, limits=LIMITS)


def attempt(pool: httpx.Client, effect: Send) -> Reply:
    """Make one HTTP attempt. Raises `Unanswered`."""
    content = chunks(effect.body) if isinstance(effect.body, FileBody) else effect.body
    try:
        request = pool.build_request(
            effect.method, effect.url, headers=sent_headers(effect), content=content, timeout=effect.timeout
        )
        response = pool.send(request, stream=effect.streamed)
        if not effect.streamed:
            return reply_of(response)
        if response.is_success:
            return Reply(response.status_code, dict(response.headers), b"", response)
        with closing(response):
            response.read()
            return reply_of(response)
    except FAILURES as error:
        raise unanswered(effect, error) from None
