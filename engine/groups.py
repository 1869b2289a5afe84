"""A group as its Verifier sees it: source slots as lists over the executions that were gathered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from engine.evidence import file_value
from engine.failure import BlockFailure
from engine.references import select
from wyrd.cards import SourceSlot, VerifierSpec
from wyrd.cards.references import Selector
from wyrd.wire.canonical import canonical_json


@dataclass(frozen=True, slots=True)
class Piece:
    """One source execution. `inputs` are its accepted declarations by slot; `outcomes` those of its
    requirements by id, empty until it has a result, and for ever when it ended without one."""

    execution_id: str
    inputs: Mapping[str, Mapping[str, Any]]
    outcomes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Gathered:
    """What one source slot reads: `value` is the list, item by item of `execution_ids`."""

    reference: str
    execution_ids: Sequence[str]
    value: list[Any]


def gather(spec: VerifierSpec, pieces: Mapping[str, Sequence[Piece]]) -> dict[str, Gathered]:
    """The source slots of a group Verifier, by slot name.

    `pieces` holds, by the name of the source Verifier, its executions in order of arrival. All
    slots over one Verifier are aligned item by item. An outcome that is not there yet, and an
    absent value inside an input, are null.
    """
    ordered = {name: list(found) for name, found in pieces.items()}
    if spec.order_by is not None:
        keyed = spec.inputs.get(spec.order_by.name)
        if isinstance(keyed, SourceSlot) and keyed.verifier in ordered:
            selectors = spec.order_by.selectors
            reads = partial(_read, keyed)
            # Stable: executions with equal keys stay in order of arrival.
            ordered[keyed.verifier].sort(key=lambda piece: _key(reads(piece), selectors))
    found: dict[str, Gathered] = {}
    for name, slot in spec.inputs.items():
        if not isinstance(slot, SourceSlot):
            continue
        chosen = ordered.get(slot.verifier or "", [])
        found[name] = Gathered(
            slot.text, [piece.execution_id for piece in chosen], [_read(slot, piece) for piece in chosen]
        )
    return found


def _read(slot: SourceSlot, piece: Piece) -> Any:
    if slot.requirement is not None:
        return piece.outcomes.get(slot.requirement)
    declaration = piece.inputs.get(slot.slot or "")
    if declaration is None:
        return None
    match declaration["kind"]:
        case "json":
            return declaration["value"]
        case "trace":
            return declaration["trace_id"]
        case _:
            return file_value(declaration)


def _key(item: Any, selectors: Sequence[Selector]) -> tuple[int, Any]:
    """Numbers first, then text, then anything else by its canonical form; missing and null last."""
    try:
        key = select(item, selectors)
    except BlockFailure:
        return 4, 0
    if key is None:
        return 4, 0
    if isinstance(key, bool):
        return 2, key
    if isinstance(key, int | float):
        return 0, key
    if isinstance(key, str):
        return 1, key
    return 3, canonical_json(key)
