"""Conversations on a server whose time a test lets pass: the due times of days, judged in seconds.

Temporal's clock is moved for each group's workflow, the database's by the same offset.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import TimeSkipper, TimeSkippingConfig

from activities.relay import Relay, group_workflow_id
from store.bindings import Bindings
from store.clock import shifted
from store.database import utc_now
from store.groups import Group, Groups
from tests.e2e.stack import Stack, asserting, card, in_process, sibling, until
from wyrd.wire.ids import uuid7

TURN: dict[str, Any] = {
    "inputs": {"turn": {"type": "json"}, "note": {"type": "json", "required": False}},
    "requirements": [asserting("inputs.turn.text", "not_contains", "guaranteed", id="polite")],
}
WHOLE: dict[str, Any] = {
    "inputs": {
        "turns": "verifiers.turn-check.inputs.turn",
        "notes": "verifiers.turn-check.inputs.note",
        "verdicts": "verifiers.turn-check.requirements.polite.outcome",
    },
    "requirements": [asserting("inputs.turns", {"kind": "length_less_than", "max": 4}, id="short")],
}


@dataclass
class Quiet:
    """A server and its clocks. `passed` is how far ahead of the real time they are."""

    stack: Stack
    skipper: TimeSkipper
    passed: timedelta = timedelta(0)
    conversations: list[Conversation] = field(default_factory=list)

    @property
    def relay(self) -> Relay:
        return Relay(self.stack.services.database, self.skipper.client)

    async def tell(self) -> None:
        """Let the groups' workflows know what is due, and put those that are new on this time."""
        await self.relay.pass_once()
        await self._bring_along()

    async def let_pass(self, duration: timedelta) -> None:
        """Time passes: whatever comes due in it is taken up."""
        await self.tell()
        await self.pass_untold(duration)

    async def pass_untold(self, duration: timedelta) -> None:
        """Time passes, and nobody is told of what has become due before."""
        self.passed += duration
        await self._bring_along()

    async def _bring_along(self) -> None:
        for conversation in self.conversations:
            handle = self.skipper.client.get_workflow_handle(conversation.workflow_id)
            try:
                if (await handle.describe()).status is not WorkflowExecutionStatus.RUNNING:
                    continue
                behind = utc_now() + self.passed - await self.skipper.get_current_time(handle)
                if behind > timedelta(seconds=1):
                    await self.skipper.fast_forward(handle, behind)
            except RPCError as error:
                # Nothing is due for it, so it has no workflow.
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise

    async def conversation(self, after: str = "30m", **options: Any) -> Conversation:
        made = await declared(self.stack, after, **options)
        conversation = Conversation(self, **made)
        self.conversations.append(conversation)
        return conversation


@dataclass
class Conversation:
    """One group of one binding of a Service of its own."""

    quiet: Quiet
    turn_check: str
    whole_check: str
    desk: str
    binding_id: str
    group_id: str = field(default_factory=lambda: f"conversation-{uuid7()}")

    @property
    def stack(self) -> Stack:
        return self.quiet.stack

    @property
    def workflow_id(self) -> str:
        return group_workflow_id(self.stack.tenant, self.binding_id, self.group_id)

    def body(self, turn: Any, **inputs: Any) -> dict[str, Any]:
        told = {slot: {"kind": "json", "value": value} for slot, value in {"turn": turn, **inputs}.items()}
        return {
            "verifier_card_uid": self.turn_check,
            "card_uid": self.desk,
            "run_id": uuid7(),
            "group_id": self.group_id,
            "inputs": told,
        }

    async def submit(self, turn: Any, **inputs: Any) -> str:
        answer = await self.stack.enqueue(self.body(turn, **inputs))
        assert answer.status_code == 202, answer.text
        execution_id: str = answer.json()["execution_id"]
        return execution_id

    async def submitted(self, turn: Any, **inputs: Any) -> str:
        """As `submit`, once its result is acknowledged too."""
        execution_id = await self.submit(turn, **inputs)
        await self.stack.ended(execution_id)
        return execution_id

    async def verify(self, turn: Any, **inputs: Any) -> str:
        """A verify, once its record is in the database."""
        answer = await self.stack.http.post("/v1/verification/execute", json=self.body(turn, **inputs))
        assert answer.status_code == 200, answer.text
        execution_id: str = answer.json()["execution_id"]
        await until(lambda: self._acknowledged(execution_id))
        return execution_id

    async def _acknowledged(self, execution_id: str) -> bool:
        evidence = await self._read(lambda groups: groups.evidence(self.binding_id, self.group_id))
        return any(row.execution_id == execution_id for row in evidence)

    async def group(self) -> Group:
        found: Group = await self._read(lambda groups: groups.find(self.binding_id, self.group_id))
        return found

    async def due_in(self) -> timedelta | None:
        """How long until it is due, by the database's clock."""
        due_at = (await self.group()).due_at
        return None if due_at is None else due_at - self.now

    @property
    def now(self) -> datetime:
        return utc_now() + self.quiet.passed

    async def _read(self, look: Any) -> Any:
        database, tenant = self.stack.services.database, self.stack.tenant
        return await database.read(lambda connection: look(Groups(connection, tenant)))

    async def executions(self) -> list[dict[str, Any]]:
        """What was recorded for the group as a whole, the oldest first."""
        answer = await self.stack.http.get(
            "/v1/verification/executions", params={"group_id": self.group_id, "source": "group"}
        )
        return list(reversed(answer.json()["items"]))

    async def judged(self, count: int) -> list[dict[str, Any]]:
        """The documents of its judgements, the oldest first, once there are exactly that many and the
        group's workflow has gone, so that no other one is on its way."""
        await until(self._nothing_is_due)
        with contextlib.suppress(RPCError):
            await asyncio.wait_for(self.stack.client.get_workflow_handle(self.workflow_id).result(), 60)
        found = await self.executions()
        assert len(found) == count, found
        return [await self.stack.status(one["execution_id"]) for one in found]

    async def _nothing_is_due(self) -> bool:
        return (await self.group()).due_at is None

    async def status(self) -> dict[str, Any]:
        answer = await self.stack.http.get(f"/v1/verification/bindings/{self.binding_id}")
        found: dict[str, Any] = answer.json()
        return found


def values(document: Mapping[str, Any], slot: str) -> Any:
    """What a judgement read from a source slot."""
    return document["result"]["outcome"]["evidence"][slot]["value"]


async def declared(
    stack: Stack,
    after: str,
    *,
    turn: Mapping[str, Any] | None = None,
    whole: Mapping[str, Any] | None = None,
    reacting: Sequence[Mapping[str, Any]] = (),
) -> dict[str, str]:
    """Declare a Service whose turns and whole conversations are judged; uids and the binding's id."""
    desk = f"desk-{uuid7()[-12:]}"
    conversation: dict[str, Any] = {
        "verifier": sibling("Verifier", "whole-check"),
        "runs_on": {"kind": "group_end", "after": after},
    }
    if reacting:
        conversation["on_verdict_change"] = [dict(one) for one in reacting]
    service = card(
        "Service", desk, {"verified_by": [{"verifier": sibling("Verifier", "turn-check")}, conversation]}
    )
    version = f"1.0.{int(uuid7().replace('-', '')[:12], 16)}"
    uids = await stack.declare(*_at(version, desk, turn or TURN, whole or WHOLE, service))
    binding_id = await stack.services.database.read(
        lambda connection: next(
            one.binding_id
            for one in Bindings(connection, stack.tenant).of_owner(uids[desk])
            if one.runs_on is not None
        )
    )
    return {
        "turn_check": uids["turn-check"],
        "whole_check": uids["whole-check"],
        "desk": uids[desk],
        "binding_id": binding_id,
    }


def _at(
    version: str, desk: str, turn: Mapping[str, Any], whole: Mapping[str, Any], service: dict[str, Any]
) -> list[dict[str, Any]]:
    """The Cards, with Verifiers of a version of their own: names in source slots are the same for all."""
    for entry in service["spec"]["verified_by"]:
        entry["verifier"]["sibling"]["version"] = version
    return [
        card("Verifier", "turn-check", turn, version),
        card("Verifier", "whole-check", whole, version),
        service,
    ]


@contextlib.asynccontextmanager
async def on_skipping_server(home: Path, client: Client, **options: Any) -> AsyncIterator[Quiet]:
    """The whole server, on one where time passes as the test says."""
    address = client.service_client.config.target_host
    async with in_process(home, address, **options) as stack:
        quiet = Quiet(stack, TimeSkipper(stack.client, config=TimeSkippingConfig(enabled=False)))
        with shifted_by(quiet):
            yield quiet


@contextlib.contextmanager
def shifted_by(quiet: Quiet) -> Iterator[None]:
    with shifted(lambda: quiet.passed):
        yield
