"""submit: accept an execution, once, and hand it to Temporal before answering."""

import asyncio
import json
import logging
import re
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities.context import ExecutionContext
from activities.judging import SMALL, is_small
from activities.known import KnownExecutions
from activities.record import ExecutionNames
from activities.starting import Startable, start_verification
from api.acceptance import Acceptance
from api.targets import Bound, Targets
from api.verify import new_execution
from engine.evidence import Evidence
from store.caller import Caller, Permission, Tenant
from store.cards import Cards
from store.database import Database, utc_now
from store.executions import (
    Accepted,
    Executions,
    NewExecution,
    acknowledge_executions,
    find_execution,
    new_execution_id,
    workflow_id_of,
)
from store.groups import GroupBinding
from store.submission_keys import SubmissionKeys
from wyrd.errors import Code, WyrdError
from wyrd.wire.canonical import digest
from wyrd.wire.verification import ExecuteRequest

_log = logging.getLogger("wyrd.api")
_KEY = re.compile(r"[\x21-\x7e]{8,256}")
_ACKNOWLEDGE_SECONDS = 0.2
_COUNT_SECONDS = 1.0


def checked_key(key: str | None) -> str:
    """The idempotency key. Raises `…_KEY_REQUIRED` and `…_KEY_INVALID`."""
    if key is None:
        raise WyrdError(
            Code.REGISTRY_400_IDEMPOTENCY_KEY_REQUIRED,
            "a submit needs an idempotency-key header",
            field="idempotency-key",
        )
    if _KEY.fullmatch(key) is None:
        raise WyrdError(
            Code.REGISTRY_400_IDEMPOTENCY_KEY_INVALID,
            "an idempotency key is 8 to 256 visible ASCII characters",
            field="idempotency-key",
        )
    return key


class Submit:
    """The enqueue route's one operation: a row and a workflow under the same id, or neither answered."""

    def __init__(
        self,
        database: Database,
        acceptance: Acceptance,
        targets: Targets,
        known: KnownExecutions,
        client: Client,
    ) -> None:
        self._database = database
        self._acceptance = acceptance
        self._settings = acceptance.settings
        self._targets = targets
        self._known = known
        self._client = client
        self._unacknowledged: dict[Tenant, list[str]] = defaultdict(list)
        self._acknowledging: asyncio.Task[None] | None = None
        self._waiting: dict[str, tuple[float, int]] = {}

    async def run(self, caller: Caller, asked: ExecuteRequest, key: str) -> tuple[str, str]:
        """The execution's id and its workflow's, once the Temporal server has accepted the start.

        The same key and body give the same execution. Raises the refusals of acceptance and
        `WYRD_SERVER_503_SERVICE_UNAVAILABLE` when Temporal or the database cannot be reached;
        what was refused does not run.
        """
        caller.require(Permission.SUBMIT)
        small = is_small([getattr(given, "value", None) for given in asked.inputs.values()], SMALL)
        body = _body_digest(asked) if small else await asyncio.to_thread(_body_digest, asked)
        try:
            await self._require_room(caller.tenant)
            bound = await self._targets.resolve(caller, asked.verifier_card_uid, asked.card_uid)
            inputs = await self._acceptance.accept(caller, bound.target, bound.bundle.plan.spec, asked)
        except WyrdError as refusal:
            # A repetition of what was accepted gets the same answer, whatever has changed since.
            earlier = await self._accepted_before(caller, key, body, refusal)
            return earlier, workflow_id_of(caller.tenant, earlier)
        execution_id = new_execution_id()
        new = new_execution(
            caller,
            asked,
            bound,
            execution_id,
            "submit",
            json.dumps(inputs) if small else await asyncio.to_thread(json.dumps, inputs),
            utc_now(),
            self._settings.execution_timeout_seconds,
        )
        accepted = await self._database.write(_accept, caller.tenant, new, key, body, bound.target.groups)
        if accepted.fresh:
            self._expect(caller.tenant, bound, new, inputs)
            await self._start(caller.tenant, bound, new)
        elif not accepted.conflict:
            await self._start_unless_acknowledged(caller.tenant, bound, accepted.execution_id)
        return accepted.execution_id, workflow_id_of(caller.tenant, accepted.execution_id)

    async def close(self) -> None:
        """Write the acknowledgements under way."""
        if self._acknowledging is not None:
            await self._acknowledging

    async def _accepted_before(self, caller: Caller, key: str, body: str, refusal: WyrdError) -> str:
        if refusal.status >= 500:
            raise refusal
        found = await self._database.read(_repeated, caller, key, body)
        if found is None:
            raise refusal
        return found

    def _expect(self, tenant: Tenant, bound: Bound, new: NewExecution, inputs: dict[str, Any]) -> None:
        """Spare the workflow, which most likely starts in this process, reading it all back."""
        bundle = bound.bundle
        context = ExecutionContext(
            tenant=tenant,
            execution_id=new.execution_id,
            started_at=new.created_at,
            bundle=bundle,
            evidence=Evidence(bundle.plan.spec, inputs),
            ledger=self._known.ledger(tenant, new.execution_id, bundle),
        )
        names = ExecutionNames(
            verifier=bound.target.verifier,
            subject=bound.target.subject,
            owner=bound.target.owner,
            source=new.source,
            workflow_id=workflow_id_of(tenant, new.execution_id),
            binding_id=new.binding_id,
            run_id=new.run_id,
            group_id=new.group_id,
            principal_id=new.principal_id,
            session_id=new.session_id,
        )
        self._known.keep(names, context)

    async def _start(self, tenant: Tenant, bound: Bound, new: NewExecution) -> None:
        startable = Startable(
            tenant,
            new.execution_id,
            new.verifier,
            new.subject,
            new.timeout_seconds,
            bound.bundle.plan.shape,
        )
        try:
            await start_verification(self._client, startable, eager=True)
        except RPCError as error:
            if error.status in _NEVER_ARRIVED:
                await self._database.write(_withdraw, tenant, new.execution_id)
            raise WyrdError(
                Code.SERVER_503_SERVICE_UNAVAILABLE, "Temporal cannot be reached", service="temporal"
            ) from error
        self._acknowledge(tenant, new.execution_id)

    async def _start_unless_acknowledged(self, tenant: Tenant, bound: Bound, execution_id: str) -> None:
        row = await self._database.read(find_execution, tenant, execution_id)
        if row is None or row.acknowledged:
            return
        new = NewExecution(**{name: getattr(row, name) for name in NewExecution.__dataclass_fields__})
        await self._start(tenant, bound, new)
        # At once: whoever came first with this key may be withdrawing the row after a failed start.
        if not await self._database.write(acknowledge_executions, tenant, [execution_id]):
            raise WyrdError(
                Code.SERVER_503_SERVICE_UNAVAILABLE, "Temporal could not be reached", service="temporal"
            )

    def _acknowledge(self, tenant: Tenant, execution_id: str) -> None:
        """Note it a little later, many at once: most executions have ended by then, which says the same."""
        self._unacknowledged[tenant].append(execution_id)
        if self._acknowledging is None or self._acknowledging.done():
            self._acknowledging = asyncio.create_task(self._acknowledge_soon())

    async def _acknowledge_soon(self) -> None:
        while self._unacknowledged:
            await asyncio.sleep(_ACKNOWLEDGE_SECONDS)
            noted, self._unacknowledged = self._unacknowledged, defaultdict(list)
            for tenant, execution_ids in noted.items():
                try:
                    await self._database.write(acknowledge_executions, tenant, execution_ids)
                except Exception as error:
                    _log.warning("acknowledgements are left to the settler: %s", error)

    async def _require_room(self, tenant: Tenant) -> None:
        limit = self._settings.max_waiting_executions
        counted = self._waiting.get(tenant.id)
        now = time.monotonic()
        if counted is None or counted[0] < now:
            waiting = await self._database.read(_count_waiting, tenant, limit)
            counted = self._waiting[tenant.id] = (now + _COUNT_SECONDS, waiting)
        if counted[1] >= limit:
            raise WyrdError(
                Code.VERIFICATION_429_STAGING_FULL,
                f"{limit} executions are waiting already",
                limit=limit,
            )


_NEVER_ARRIVED = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.NOT_FOUND)


def _accept(
    connection: Connection,
    tenant: Tenant,
    new: NewExecution,
    key: str,
    body: str,
    groups: Sequence[GroupBinding],
) -> Accepted:
    executions = Executions(connection, tenant)
    if Cards(connection, tenant).declaration(key) is not None:
        return executions.refuse(new, key=key, body_sha256=body)
    return executions.accept(new, key=key, body_sha256=body, groups=groups)


def _withdraw(connection: Connection, tenant: Tenant, execution_id: str) -> None:
    Executions(connection, tenant).withdraw(execution_id)


def _repeated(connection: Connection, caller: Caller, key: str, body: str) -> str | None:
    return SubmissionKeys(connection, caller.tenant).accepted_before(key, body, caller.principal_id)


def _body_digest(asked: ExecuteRequest) -> str:
    return digest({"route": "enqueue", "body": asked.model_dump(mode="json")})


def _count_waiting(connection: Connection, tenant: Tenant, limit: int) -> int:
    return Executions(connection, tenant).waiting(limit)
