"""The Temporal activities of one dispatch: deliver it, or record that it was given up."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.beating import beating
from activities.dispatch.courier import RETRIED, Courier, Outcome
from activities.dispatch.requests import DispatchRequest
from store.caller import Tenant
from store.clock import now
from store.connections import Connections
from store.database import Database
from store.dispatches import (
    AttemptEnd,
    DispatchError,
    Dispatches,
    DispatchFault,
    DispatchStatus,
)
from store.sealing import Sealer
from workflows import contracts
from workflows.contracts import Deliver, DispatchEnded, EndDispatch
from wyrd.errors import WyrdError

MOST_ATTEMPTS = 3
WAITS = (30.0, 120.0)
"""Seconds after the first and after the second attempt, where the provider asks for no longer."""


def wait_before_next(number: int, retry_after: float | None, left: float) -> float | DispatchFault:
    """Seconds until the attempt after this one, or why there is none. `left`: seconds to the deadline."""
    if number >= MOST_ATTEMPTS:
        return DispatchFault.ATTEMPTS_EXHAUSTED
    wait = max(WAITS[number - 1], retry_after or 0.0)
    return wait if wait < left else DispatchFault.DEADLINE_EXCEEDED


class DispatchEnds:
    """Records dispatches that were given up; bound to one process's database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def quick(self) -> list[Any]:
        """What the `wyrd` queue runs, mostly as local activities."""
        return [self.end_dispatch]

    @activity.defn(name=contracts.END_DISPATCH)
    async def end_dispatch(self, argument: EndDispatch) -> None:
        tenant = Tenant(argument.tenant_id, argument.tenant_slug)
        error = DispatchError(DispatchFault(argument.code), argument.message)
        await self._database.write(_fail, tenant, argument.dispatch_id, error)


class DispatchActivities:
    """Bound to one process's database and courier."""

    def __init__(self, database: Database, sealer: Sealer, courier: Courier) -> None:
        self._database = database
        self._sealer = sealer
        self._courier = courier

    @property
    def deliveries(self) -> list[Any]:
        """What the queue of deliveries runs."""
        return [self.deliver]

    @activity.defn(name=contracts.DELIVER)
    async def deliver(self, argument: Deliver) -> DispatchEnded:
        began = time.monotonic()
        # By Temporal's clock, which set the deadline; from here on by how much time passes here.
        until = argument.deadline - activity.info().started_time.timestamp()
        tenant = Tenant(argument.tenant_id, argument.tenant_slug)
        async with beating():
            row = await self._database.read(_find, tenant, argument.dispatch_id)
            if row is None:
                raise ApplicationError("the dispatch is not recorded", type="NotRecorded", non_retryable=True)
            if row.ended_at is not None:
                return _answer(row.status, row.error_code, row.error_message)
            late = until - (time.monotonic() - began) <= 0
            number = None if late else await self._database.write(_begin, tenant, argument.dispatch_id)
            if number is None:
                code = DispatchFault.DEADLINE_EXCEEDED if late else DispatchFault.ATTEMPTS_EXHAUSTED
                error = DispatchError(code, _sentence(code, None))
                await self._database.write(_fail, tenant, argument.dispatch_id, error)
                raise _told(error)
            outcome, milliseconds = await self._attempted(
                tenant, row, number, until - (time.monotonic() - began)
            )
            failed = outcome.error
            if failed is None:
                await self._finish(tenant, argument, number, outcome, milliseconds)
                return DispatchEnded(status=DispatchStatus.DELIVERED.value)
            wait: float | DispatchFault = failed.code
            if failed.code in RETRIED:
                wait = wait_before_next(number, outcome.retry_after, until - (time.monotonic() - began))
            if isinstance(wait, DispatchFault):
                final = DispatchError(wait, _sentence(wait, failed))
                await self._finish(tenant, argument, number, outcome, milliseconds, final)
                raise _told(final)
            await self._finish(tenant, argument, number, outcome, milliseconds)
            raise ApplicationError(
                f"attempt {number}: {failed.code.value}",
                type=failed.code.value,
                next_retry_delay=timedelta(seconds=wait),
                category=ApplicationErrorCategory.BENIGN,
            )

    async def _attempted(
        self, tenant: Tenant, row: Row[Any], number: int, left: float
    ) -> tuple[Outcome, int]:
        """One attempt, and how many milliseconds it took."""
        began = time.monotonic()
        request = DispatchRequest.model_validate_json(row.request)
        secret = await self._secret(tenant, request)
        if isinstance(secret, DispatchError):
            outcome = Outcome(None, secret)
        else:
            limit = min(contracts.ATTEMPT_SECONDS, left, request.timeout_seconds or left)
            outcome = await self._courier.attempt(
                request, secret, dispatch_id=row.dispatch_id, number=number, limit=max(limit, 0.0)
            )
        return outcome, round((time.monotonic() - began) * 1000)

    async def _secret(
        self, tenant: Tenant, request: DispatchRequest
    ) -> dict[str, str] | DispatchError | None:
        """What the request authenticates by: nothing where its Operator names no connection."""
        if request.connection is None:
            return None
        try:
            return await self._database.read(_secret_for, tenant, self._sealer, request)
        except WyrdError as error:
            if not error.code.startswith("WYRD_OPERATOR_"):
                raise
            return DispatchError(DispatchFault.CREDENTIAL_INVALID, error.detail)

    async def _finish(
        self,
        tenant: Tenant,
        argument: Deliver,
        number: int,
        outcome: Outcome,
        milliseconds: int,
        final: DispatchError | None = None,
    ) -> None:
        end = AttemptEnd(milliseconds, outcome.status_code, outcome.error)
        await self._database.write(_finish, tenant, argument.dispatch_id, number, end, final)


def _sentence(code: DispatchFault, last: DispatchError | None) -> str:
    if last is not None and last.code is code:
        return last.message
    said = {
        DispatchFault.ATTEMPTS_EXHAUSTED: f"{MOST_ATTEMPTS} attempts failed",
        DispatchFault.DEADLINE_EXCEEDED: "no time is left for another attempt",
    }[code]
    return said if last is None else f"{said}; the last: {last.code.value}, {last.message}"


def _told(error: DispatchError) -> ApplicationError:
    # The sentence stands in the database; histories hold codes alone.
    return ApplicationError(
        error.code.value,
        error.code.value,
        type=error.code.value,
        non_retryable=True,
        category=ApplicationErrorCategory.BENIGN,
    )


def _answer(status: str, code: str | None, message: str | None) -> DispatchEnded:
    """The end that an earlier attempt of the activity recorded before its answer was lost."""
    if code is not None:
        raise _told(DispatchError(DispatchFault(code), message or ""))
    return DispatchEnded(status=status)


def _find(connection: Connection, tenant: Tenant, dispatch_id: str) -> Row[Any] | None:
    return Dispatches(connection, tenant).find(dispatch_id)


def _begin(connection: Connection, tenant: Tenant, dispatch_id: str) -> int | None:
    """The number of the attempt that begins; None where all were begun, of lost workers too."""
    repository = Dispatches(connection, tenant)
    if repository.begun(dispatch_id) >= MOST_ATTEMPTS:
        return None
    return repository.begin(dispatch_id, now(connection))


def _finish(
    connection: Connection,
    tenant: Tenant,
    dispatch_id: str,
    number: int,
    end: AttemptEnd,
    final: DispatchError | None,
) -> None:
    """Record an attempt, and the end of the dispatch where it is its last."""
    repository, moment = Dispatches(connection, tenant), now(connection)
    repository.finish(dispatch_id, number, end, moment)
    if final is not None:
        repository.fail(dispatch_id, final, moment)


def _fail(connection: Connection, tenant: Tenant, dispatch_id: str, error: DispatchError) -> None:
    Dispatches(connection, tenant).fail(dispatch_id, error, now(connection))


def _secret_for(
    connection: Connection, tenant: Tenant, sealer: Sealer, request: DispatchRequest
) -> dict[str, str] | DispatchError:
    repository = Connections(connection, tenant)
    assert request.connection is not None
    found = repository.named([request.connection]).get(request.connection)
    if found is None:
        why: str | None = f"there is no connection {request.connection}"
    else:
        why = found.refusal(request.provider, request.auth_scheme, request.auth_header, request.url)
    if found is None or why is not None:
        return DispatchError(DispatchFault.CONNECTION_UNAVAILABLE, why or "")
    return repository.secret(sealer, found)
