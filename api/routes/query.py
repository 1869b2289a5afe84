"""`/v1/query`: ask with SQL, see what is running, and stop it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from api.dependencies import Calling, Router, Serving, asked_by, body_of, services
from api.edge import request_id_of
from api.problems import Document, json_bytes, problem_document
from bifrost.oracle.answers import Answer, Oracle
from bifrost.oracle.frames import (
    CONTENT_TYPE,
    END_OF_STREAM,
    batch_frame,
    failed_frame,
    schema_frame,
    success_frame,
)
from bifrost.oracle.question import DEFAULT_BYTES, DEFAULT_ROWS, Question
from bifrost.oracle.rows import collected
from bifrost.oracle.timeline import as_published, is_timeline, published_schema
from store.caller import Caller, Permission
from wyrd.errors import Code, WyrdError
from wyrd.wire.bifrost import QueryCancelled, QueryRequest, QueryRows, RunningQueries, RunningQuery

ARROW_STREAM = "application/vnd.apache.arrow.stream"
DEADLINE_HEADER = "x-wyrd-query-deadline-ms"

router = Router(prefix="/v1/query", tags=["query"])

Sending = Callable[[bytes], Awaitable[None]]


class _Gone(Exception):
    """The client left."""


class Streamed(Response):
    """A response whose rows are worked out while they are sent, and no longer than somebody listens.

    The query has begun; it is let go of when the response was sent or the client is gone.
    """

    def __init__(
        self, oracle: AsyncExitStack, chunks: AsyncIterator[bytes], kind: str, headers: dict[str, str]
    ) -> None:
        super().__init__(None, 200, headers, kind)
        # The length is not known before the end.
        del self.headers["content-length"]
        self._oracle = oracle
        self._chunks = chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._oracle:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})

            async def sending() -> None:
                async for chunk in self._chunks:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await send({"type": "http.response.body", "body": b""})

            try:
                await _while_listening(sending(), receive)
            except _Gone:
                return


async def _while_listening(work: Awaitable[None], receive: Receive) -> None:
    """The work, unless the client hangs up first. Raises `_Gone`."""

    async def leaving() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    working, watching = asyncio.ensure_future(work), asyncio.ensure_future(leaving())
    try:
        await asyncio.wait([working, watching], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise _Gone
        await working
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


@router.post(
    "",
    response_model=None,
    responses={
        200: {
            "model": QueryRows,
            "content": {
                kind: {"schema": {"type": "string", "format": "binary"}}
                for kind in (ARROW_STREAM, CONTENT_TYPE)
            },
        }
    },
    openapi_extra=body_of(QueryRequest),
)
async def query(request: Request) -> Response:
    """Run one SELECT. `accept` chooses the answer: JSON rows (at most 1,000 and 4 MiB unless the
    request says otherwise), an Arrow stream, or the published frame stream."""
    caller, asked = await asked_by(request, QueryRequest, Code.SPEC_400_VALIDATION)
    oracle = services(request).bifrost.oracle
    kind = _wanted(request.headers.get("accept", ""))
    as_rows = kind == "application/json"
    question = Question(
        sql=asked.sql,
        request_id=request_id_of(request.scope),
        params=asked.params or (),
        deadline=None if asked.deadline_ms is None else asked.deadline_ms / 1000,
        max_rows=asked.max_rows or (DEFAULT_ROWS if as_rows else None),
        max_bytes=asked.max_bytes or (DEFAULT_BYTES if as_rows else None),
    )
    stack = AsyncExitStack()
    response: Response | None = None

    async def begin() -> None:
        nonlocal response
        answer = await stack.enter_async_context(oracle.ask(caller, question))
        headers = {DEADLINE_HEADER: str(max(1, round(answer.deadline_seconds * 1000)))}
        if as_rows:
            rows = await collected(answer, question.max_bytes)
            response = Document(rows.model_dump(mode="python"), headers=headers)
        elif kind == ARROW_STREAM:
            response = Streamed(stack, _arrow(answer), kind, headers)
        else:
            frames = _frames(answer, question.request_id, timeline=is_timeline(question.sql))
            response = Streamed(stack, frames, kind, headers)

    try:
        await _while_listening(begin(), request.receive)
    except _Gone:
        response = Response(status_code=499)
    finally:
        if not isinstance(response, Streamed):
            await stack.aclose()
    assert response is not None
    return response


@router.get("/running", response_model=None, responses={200: {"model": RunningQueries}})
async def running(caller: Calling, serving: Serving) -> Response:
    """The tenant's queries that run in this process now."""
    found = _oracle(caller, serving).running(caller.tenant)
    return Document({"queries": [one.model_dump(mode="json") for one in found]})


@router.get("/{request_id}", response_model=None, responses={200: {"model": RunningQuery}})
async def status(request_id: str, caller: Calling, serving: Serving) -> Response:
    """One query that runs, by the `wyrd-request-id` it was asked with."""
    return Document(_oracle(caller, serving).find(caller.tenant, request_id).model_dump(mode="json"))


@router.delete("/{request_id}", response_model=None, responses={200: {"model": QueryCancelled}})
async def cancel(request_id: str, caller: Calling, serving: Serving) -> Response:
    """Stop a query; its asker is told that it was cancelled."""
    started = _oracle(caller, serving).cancel(caller.tenant, request_id)
    return Document({"request_id": request_id, "cancellation_started": started})


def _oracle(caller: Caller, serving: Serving) -> Oracle:
    if not caller.may(Permission.BIFROST_READ):
        raise WyrdError(Code.VALA_403_QUERY_FORBIDDEN, "the credential's roles do not permit queries")
    return serving.bifrost.oracle


def _wanted(accept: str) -> str:
    """The kind of answer; JSON when any will do."""
    kinds = [one.partition(";")[0].strip().lower() for one in accept.split(",")]
    for kind in kinds:
        if kind in (CONTENT_TYPE, ARROW_STREAM, "application/json"):
            return kind
        if kind in ("", "*/*", "application/*"):
            return "application/json"
    raise WyrdError(
        Code.SPEC_400_VALIDATION,
        f"a query is answered as application/json, {ARROW_STREAM} or {CONTENT_TYPE}",
        field="accept",
    )


async def _frames(answer: Answer, request_id: str, *, timeline: bool) -> AsyncIterator[bytes]:
    schema = published_schema(answer.schema).serialize() if timeline else answer.schema_message
    yield schema_frame(bytes(schema))
    try:
        if timeline:
            async for batch in answer:
                yield batch_frame(bytes(as_published(batch).serialize()))
        else:
            async for message in answer.messages():
                yield batch_frame(message)
    except WyrdError as error:
        told = json_bytes(problem_document(error, request_id))
        yield failed_frame(answer.row_count, answer.query_class, told)
        return
    yield success_frame(answer.row_count, answer.query_class)


async def _arrow(answer: Answer) -> AsyncIterator[bytes]:
    """An Arrow IPC stream: what fails breaks it off before its end, which every reader notices."""
    yield answer.schema_message
    async for message in answer.messages():
        yield message
    yield END_OF_STREAM
