"""What registration refuses beyond the offline check; offline the same faults are advice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from wyrd.cards.actions import CodeAction, ExtractAction
from wyrd.cards.agent import AgentSpec
from wyrd.cards.binding import Binding
from wyrd.cards.card_ref import CardRef, Sibling
from wyrd.cards.decode import Path, spec_document
from wyrd.cards.envelope import Metadata, Spec
from wyrd.cards.identifiers import is_exact_version
from wyrd.cards.neighbours import Neighbours
from wyrd.cards.operator import OperatorSpec
from wyrd.cards.prompt import PromptSpec
from wyrd.cards.rules.activation import activation_faults
from wyrd.cards.rules.binding_rules import bindings_of
from wyrd.cards.rules.cron_rules import cron_fault, time_zone_fault
from wyrd.cards.rules.fault import RuleFault
from wyrd.cards.rules.operator_rules import operator_faults
from wyrd.cards.rules.verifier_rules import VerifierRules
from wyrd.cards.schema_check import schema_faults
from wyrd.cards.service import ServiceSpec
from wyrd.cards.slots import JsonSlot
from wyrd.cards.trigger import ScheduleTrigger, TriggerSpec
from wyrd.cards.verifier import VerifierSpec
from wyrd.errors import Code, WyrdError
from wyrd.wire.canonical import JsonRefused, canonical_json
from wyrd.wire.table_names import is_reserved, is_table_name

MAX_SPEC_BYTES: Final = 256 * 1024
MAX_BLOCKS: Final = 1000
MAX_SLOTS: Final = 64
EXTRACT_SECONDS: Final = 600
CODE_SECONDS: Final = 300

_RESERVED_PREFIX: Final = re.compile(r"(?:.*\.)?wyrd(?:\.[a-z]+)*", re.IGNORECASE)
_SECRET_KEY: Final = re.compile(
    r"(?:^|[._-])(?:password|passwd|passphrase|secret|token|api[._-]?key|private[._-]?key|credentials?)$",
    re.IGNORECASE,
)
_SECRET_VALUE: Final = re.compile(
    r"wyrd_sk_|\bsk-[A-Za-z0-9_-]{16,}|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_"
    r"|\bxox[abprs]-|-----BEGIN [A-Z ]*PRIVATE KEY|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\."
)


def registration_faults(
    kind: str, metadata: Metadata, spec: Spec, neighbours: Neighbours
) -> Iterator[RuleFault]:
    """Every fault of a Card that is otherwise accepted. Places are spec-relative."""
    yield from _size(spec)
    yield from _metadata(metadata)
    if kind in ("Agent", "Service") and not is_exact_version(metadata.version or ""):
        yield RuleFault(
            f"{kind} Cards need an exact version such as 1.0.0",
            place="metadata.version",
            code=Code.REGISTRY_400_INVALID_VERSION_BLOCK,
            extra={"field": "metadata.version"},
        )
    match spec:
        case VerifierSpec():
            yield from _verifier(spec, neighbours)
        case AgentSpec():
            yield from _agent(spec, (), neighbours)
        case PromptSpec():
            yield from _prompt(spec, ())
        case ServiceSpec():
            yield from _tables(spec)
        case TriggerSpec():
            yield from trigger_faults(spec, ())
        case OperatorSpec():
            yield from operator_faults(spec, ())
    for at, bindings in bindings_of(spec):
        for index, binding in enumerate(bindings):
            yield from _inline(binding, (*at, index))
    yield from activation_faults(spec, neighbours)


def _size(spec: Spec) -> Iterator[RuleFault]:
    try:
        size = len(canonical_json(spec_document(spec)))
    except JsonRefused as error:
        yield RuleFault(str(error), code=Code.REGISTRY_400_INVALID_CARD_SPEC)
        return
    if size > MAX_SPEC_BYTES:
        yield RuleFault(
            f"the spec has {size} bytes of canonical JSON; at most {MAX_SPEC_BYTES} are taken",
            code=Code.REGISTRY_400_SPEC_TOO_LARGE,
            extra={"size_bytes": size, "limit": MAX_SPEC_BYTES},
        )


def _metadata(metadata: Metadata) -> Iterator[RuleFault]:
    for member, found in (("labels", metadata.labels), ("annotations", metadata.annotations)):
        for key, value in found.items():
            prefix, slash, name = key.rpartition("/")
            why = None
            if slash and _RESERVED_PREFIX.fullmatch(prefix):
                why = f"the prefix {prefix[:80]!r} is reserved"
            elif _SECRET_KEY.search(name):
                why = f"{key[:80]!r} looks like the name of a secret: secrets never go on a Card"
            elif _SECRET_VALUE.search(value):
                why = f"the value of {key[:80]!r} looks like a secret: secrets never go on a Card"
            if why is not None:
                yield RuleFault(why, rule="metadata", place=f"metadata.{member}.{key}")


def _schema(schema: Any, at: Path, place: str | None = None) -> Iterator[RuleFault]:
    for path, message in schema_faults(schema):
        yield RuleFault(
            message,
            (*at, *path),
            code=Code.REGISTRY_400_INVALID_CARD_SPEC,
            place=place,
            extra={"rule": "schema"},
        )


def _verifier(spec: VerifierSpec, neighbours: Neighbours) -> Iterator[RuleFault]:
    opened = VerifierRules(
        spec, kind_of=neighbours.kind, agent_of=neighbours.agent, prompt_of=neighbours.prompt
    )
    yield from opened.faults()
    for name, slot in spec.inputs.items():
        if isinstance(slot, JsonSlot) and slot.schema_ is not None:
            yield from _schema(slot.schema_, ("inputs", name, "schema"))
    if len(spec.inputs) > MAX_SLOTS:
        yield RuleFault(f"a Verifier has at most {MAX_SLOTS} slots", ("inputs",), "slot")
    blocks = len(spec.steps) + len(spec.requirements) + sum(len(step.requirements) for step in spec.steps)
    if blocks > MAX_BLOCKS:
        said = f"a Verifier has at most {MAX_BLOCKS} steps and requirements, not {blocks}"
        yield RuleFault(said, ("requirements",), "step_budget")
    for index, step in enumerate(spec.steps):
        cap = {ExtractAction: EXTRACT_SECONDS, CodeAction: CODE_SECONDS}.get(type(step.action))
        if cap is not None and step.timeout_seconds is not None and step.timeout_seconds > cap:
            said = f"{step.action.kind} runs for at most {cap} seconds"
            yield RuleFault(said, ("steps", index, "timeout_seconds"), "step_budget")
    for at, agent in _inline_agents(spec):
        yield from _agent(agent, at, neighbours)


def _inline_agents(spec: VerifierSpec) -> Iterator[tuple[Path, AgentSpec]]:
    blocks: list[tuple[Path, Any]] = []
    for index, step in enumerate(spec.steps):
        blocks.append((("steps", index, "action"), step.action))
        for j, one in enumerate(step.requirements):
            blocks.append((("steps", index, "requirements", j, "check"), one.check))
    for index, one in enumerate(spec.requirements):
        blocks.append((("requirements", index, "check"), one.check))
    for at, block in blocks:
        agent = getattr(block, "agent", None)
        if isinstance(agent, AgentSpec):
            yield (*at, "agent"), agent


def _agent(spec: AgentSpec, at: Path, neighbours: Neighbours) -> Iterator[RuleFault]:
    if isinstance(spec.prompt, PromptSpec):
        yield from _prompt(spec.prompt, (*at, "prompt"))
        return
    kind = neighbours.kind(spec.prompt)
    if kind not in (None, "Prompt"):
        yield RuleFault(f"the prompt must be a Prompt Card, not {kind}", (*at, "prompt"), "prompt_kind")


def _prompt(spec: PromptSpec, at: Path) -> Iterator[RuleFault]:
    if spec.response_format is not None:
        yield from _schema(spec.response_format, (*at, "response_format"))


def trigger_faults(spec: TriggerSpec, at: Path) -> Iterator[RuleFault]:
    """A cron expression or time zone that cannot be used."""
    if not isinstance(spec, ScheduleTrigger):
        return
    why = cron_fault(spec.cron)
    if why is not None:
        yield RuleFault(why, (*at, "cron"), "cron")
    why = None if spec.tz is None else time_zone_fault(spec.tz)
    if why is not None:
        yield RuleFault(why, (*at, "tz"), "time_zone")


def _inline(binding: Binding, at: Path) -> Iterator[RuleFault]:
    if isinstance(binding.runs_on, TriggerSpec):
        yield from trigger_faults(binding.runs_on, (*at, "runs_on"))
    for member in ("on_failure", "on_verdict_change"):
        for index, operator in enumerate(getattr(binding, member)):
            if not isinstance(operator, CardRef | Sibling | str):
                yield from operator_faults(operator, (*at, member, index))


def _tables(spec: ServiceSpec) -> Iterator[RuleFault]:
    seen: set[str] = set()
    for index, table in enumerate(spec.tables):
        at: Path = ("tables", index)
        why = None
        if not is_table_name(table.name):
            why = f"{table.name[:80]!r} is not a table name: 1 to 63 of a-z, 0-9 and _, a letter first"
        elif table.name in seen:
            why = f"the table {table.name!r} is declared twice"
        seen.add(table.name)
        if why is not None:
            yield RuleFault(
                why, (*at, "name"), code=Code.REGISTRY_400_INVALID_CARD_SPEC, extra={"rule": "table"}
            )
        faults = [*_schema(table.schema_, (*at, "schema")), *_columns(table.schema_, (*at, "schema"))]
        yield from faults or _types(table.schema_, (*at, "schema"))


def _columns(schema: Any, at: Path) -> Iterator[RuleFault]:
    code = Code.REGISTRY_400_INVALID_CARD_SPEC
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        yield RuleFault("a table's schema has type: object", at, code=code, extra={"rule": "table"})
    if not isinstance(properties, Mapping) or not properties:
        yield RuleFault(
            "a table's schema names its columns under properties", at, code=code, extra={"rule": "table"}
        )
        return
    for name in properties:
        if is_reserved(name):
            said = f"the column {name[:80]!r} is reserved: the data plane writes it"
            yield RuleFault(
                said, (*at, "properties", name), code=code, extra={"rule": "table", "column": name}
            )


def _types(schema: Mapping[str, Any], at: Path) -> Iterator[RuleFault]:
    """What a table cannot hold of a schema that is one."""
    # Its models load with the first Service that has tables.
    from wyrd.wire.table_schema import fields_of_json_schema

    try:
        fields_of_json_schema(schema)
    except WyrdError as refused:
        yield RuleFault(refused.detail, at, code=Code.REGISTRY_400_INVALID_CARD_SPEC, extra={"rule": "table"})
