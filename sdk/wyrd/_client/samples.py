"""Samples for a Verifier that judges windows: one row of `vala.drift.observations` a measured value."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from wyrd._client.envelope import CardEnvelope
from wyrd._client.evidence_values import invalid
from wyrd._client.inputs import named_values, slots_of
from wyrd.errors import Code, WyrdError
from wyrd.wire.bifrost import FieldSpec, NestedType, TableDescription, TimestampType
from wyrd.wire.ids import uuid7

NAMESPACE, NAME = "vala.drift", "observations"
TABLE = f"{NAMESPACE}.{NAME}"

COLUMNS = (
    FieldSpec(name="record_id", data_type="Utf8"),
    FieldSpec(name="series", data_type="Utf8"),
    FieldSpec(name="num_value", data_type="Float64", nullable=True),
    FieldSpec(name="str_value", data_type="Utf8", nullable=True),
    FieldSpec(name="session_id", data_type="Utf8", nullable=True),
    FieldSpec(
        name="created_at", data_type=NestedType(Timestamp=TimestampType(unit="Microsecond", tz="+00:00"))
    ),
)


class Recorded:
    """What `submit` answers for samples: they are queued, and the Verifier's schedule judges their
    window later. There is no execution to wait for."""

    def __repr__(self) -> str:
        return "Recorded()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recorded)

    def __hash__(self) -> int:
        return hash(Recorded)


def check_table(found: TableDescription) -> None:
    """VALA_409_BIFROST_FINGERPRINT_MISMATCH when the table has other columns than samples are written to."""
    given = [(one.name, one.data_type, one.nullable) for one in found.user_fields]
    if given != [(one.name, one.data_type, one.nullable) for one in COLUMNS]:
        raise WyrdError(
            Code.VALA_409_BIFROST_FINGERPRINT_MISMATCH,
            f"the columns of {TABLE} are not those that this client writes",
            table=TABLE,
            columns=[one[0] for one in given],
        )


def takes_samples(verifier: CardEnvelope) -> bool:
    return any(
        isinstance(slot, Mapping) and slot.get("type") == "samples" for slot in slots_of(verifier).values()
    )


def sample_rows(
    verifier: CardEnvelope,
    session_id: str | None,
    positional: tuple[Any, ...],
    named: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """One row a measured feature, under one record id a slot. A slot takes a mapping of features to
    numbers, or to text where no check of the Verifier reads the feature as a number.

    Errors: SPEC_400_VALIDATION, VERIFICATION_400_INPUT_INVALID for an unknown slot or another value,
    VERIFICATION_422_INPUT_INCOMPATIBLE for features or types that do not fit.
    """
    slots = slots_of(verifier)
    created = datetime.now(UTC).isoformat(timespec="microseconds")
    rows: list[dict[str, Any]] = []
    for slot, value in named_values(verifier, positional, named).items():
        declared = slots.get(slot)
        if declared is None:
            raise invalid(slot, f"no such slot; {verifier.card_ref.name} has {', '.join(slots)}")
        if not isinstance(value, Mapping):
            raise invalid(slot, f"a samples slot takes features with values, not {type(value).__name__}")
        features = tuple(declared.get("features") or ())
        numeric = _numeric_features(verifier, slot)
        # What was measured together is one record: a check of several features judges whole records.
        record_id = uuid7()
        for feature, measured in value.items():
            if feature not in features:
                raise _unfit(slot, str(feature), f"the slot measures {', '.join(features)}")
            number, text = _value(slot, feature, measured)
            if number is None and feature in numeric:
                raise _unfit(slot, feature, "its checks read a number, and this is text")
            rows.append(
                {
                    "record_id": record_id,
                    "series": feature,
                    "num_value": number,
                    "str_value": text,
                    "session_id": session_id,
                    "created_at": created,
                }
            )
    if not rows:
        raise WyrdError(
            Code.VERIFICATION_400_INPUT_INVALID,
            f"{verifier.card_ref.name} was given no sample",
            path="inputs",
            reason="no sample",
        )
    return rows


def _numeric_features(verifier: CardEnvelope, slot: str) -> set[str]:
    """The features of a samples slot that some check reads as numbers: one value of text among them
    would leave the whole window unjudged."""
    found: set[str] = set()
    for requirement in verifier.spec.get("requirements") or ():
        check = requirement.get("check") if isinstance(requirement, Mapping) else None
        if (
            not isinstance(check, Mapping)
            or check.get("kind") != "drift"
            or check.get("on") != f"inputs.{slot}"
        ):
            continue
        signal, profile = check.get("signal") or {}, check.get("profile") or {}
        if signal.get("kind") == "Metric":
            found.add(signal["name"])
        else:
            categorical = profile.get("categorical_features") or ()
            found.update(one for one in signal.get("features") or () if one not in categorical)
    return found


def _value(slot: str, feature: str, measured: Any) -> tuple[float | None, str]:
    """A number as both; text as itself alone."""
    if isinstance(measured, str):
        return None, measured
    if isinstance(measured, int | float) and not isinstance(measured, bool):
        try:
            number = float(measured)
        except OverflowError:
            raise _unfit(slot, feature, "the number is too large") from None
        if number - number != 0.0:
            raise _unfit(slot, feature, "the number is not finite")
        return number, str(measured)
    raise _unfit(slot, feature, f"a sample is a number or text, not {type(measured).__name__}")


def _unfit(slot: str, feature: str, reason: str) -> WyrdError:
    return WyrdError(
        Code.VERIFICATION_422_INPUT_INCOMPATIBLE,
        f"{slot}.{feature[:80]}: {reason}",
        path=f"inputs.{slot}.{feature[:80]}",
        reason=reason,
    )
