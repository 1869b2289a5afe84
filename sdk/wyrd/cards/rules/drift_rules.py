"""The drift check: its slot, signal, condition and profile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wyrd.cards.card_ref import CardRef
from wyrd.cards.drift import (
    CustomProfile,
    DistributionSignal,
    DriftCheck,
    FixedThreshold,
    MetricSignal,
    PsiProfile,
    SpcProfile,
    StatisticalCondition,
)
from wyrd.cards.identifiers import is_feature
from wyrd.cards.rules.fault import RuleFault
from wyrd.cards.slots import SamplesSlot, Slot
from wyrd.errors import Code

MIN_BINS, MAX_BINS = 2, 1000


def drift_fault(check: DriftCheck, slots: dict[str, Slot], at: tuple[str | int, ...]) -> RuleFault | None:
    """The first rule that the check breaks, in the order they are judged."""
    return next(_faults(check, slots, at), None)


def _faults(check: DriftCheck, slots: dict[str, Slot], at: tuple[str | int, ...]) -> Iterator[RuleFault]:
    slot = slots.get(check.on.name) if check.on.is_whole_slot else None
    if not isinstance(slot, SamplesSlot):
        yield RuleFault(f"{check.on} is not one whole samples slot", at, "drift_source")
        return
    for made in (_signal(check), _condition(check), _profile(check)):
        for fault in made:
            yield RuleFault(
                fault.message,
                (*at, *fault.at),
                place=fault.place,
                code=fault.code,
                extra=fault.extra,
            )
    outside = [name for name in _features(check) if name not in slot.features]
    if outside:
        yield RuleFault(f"{outside[0][:80]!r} is not a feature of {check.on}", at, "drift_features")


def _features(check: DriftCheck) -> list[str]:
    if isinstance(check.signal, DistributionSignal):
        return check.signal.features
    return [check.signal.name]


def _invalid(message: str, place: str, at: tuple[str | int, ...], **extra: Any) -> RuleFault:
    return RuleFault(
        message, at, place=place, code=Code.DRIFT_400_VALIDATION, extra={"field": place, **extra}
    )


def _signal(check: DriftCheck) -> Iterator[RuleFault]:
    signal = check.signal
    if isinstance(signal, MetricSignal) is not (check.method == "Custom"):
        yield RuleFault(
            f"method {check.method} does not take a {signal.kind} signal",
            ("signal",),
            place="",
            code=Code.DRIFT_400_SIGNAL_METHOD_MISMATCH,
            extra={"signal": signal.kind, "method": check.method},
        )
        return
    if not isinstance(signal, DistributionSignal):
        return
    if not signal.features:
        yield _invalid(
            "the signal names no feature", "signal.features", ("signal", "features"), reason="empty"
        )
    elif len(set(signal.features)) != len(signal.features):
        twice = next(name for name in signal.features if signal.features.count(name) > 1)
        yield _invalid(
            f"{twice[:80]!r} is repeated", "signal.features", ("signal", "features"), duplicate=twice
        )


def baseline_fault(check: DriftCheck, kind: str | None, at: tuple[str | int, ...]) -> RuleFault | None:
    """A baseline of a known kind that is not Data."""
    signal = check.signal
    if not isinstance(signal, DistributionSignal) or kind in (None, "Data"):
        return None
    shown = str(signal.baseline_ref) if isinstance(signal.baseline_ref, CardRef) else f"a {kind}"
    return RuleFault(
        f"the baseline must be a Data Card, not {shown}",
        (*at, "signal", "baseline_ref"),
        place="signal.baseline_ref.kind",
        code=Code.DRIFT_400_VALIDATION,
        extra={"field": "signal.baseline_ref.kind", "got": kind, "expected": "Data"},
    )


def _condition(check: DriftCheck) -> Iterator[RuleFault]:
    if not isinstance(check.condition, StatisticalCondition):
        yield _invalid(
            "only the Statistical condition is supported",
            "condition",
            ("condition",),
            got=check.condition.kind,
        )


def _profile(check: DriftCheck) -> Iterator[RuleFault]:
    profile = check.profile
    if profile is None:
        yield RuleFault(
            f"a {check.method} check needs a profile of its method",
            (),
            place="",
            code=Code.DRIFT_400_PROFILE_REQUIRED,
            extra={"method": check.method},
        )
        return
    if profile.kind != check.method:
        said = f"a {check.method} check needs a {check.method} profile, not {profile.kind}"
        yield _invalid(said, "profile.kind", ("profile", "kind"), got=profile.kind, expected=check.method)
        return
    match profile:
        case PsiProfile():
            yield from _psi(check, profile)
        case SpcProfile():
            if profile.sample_size < 2:
                place = "profile.sample_size"
                yield _invalid("a subgroup has at least 2 samples", place, ("profile", "sample_size"), min=2)
        case CustomProfile():
            yield from _custom(check, profile)


def _psi(check: DriftCheck, profile: PsiProfile) -> Iterator[RuleFault]:
    bins = profile.binning_strategy.n_bins
    if not MIN_BINS <= bins <= MAX_BINS:
        place = "profile.binning_strategy.n_bins"
        at = ("profile", "binning_strategy", "n_bins")
        said = f"n_bins must lie from {MIN_BINS} to {MAX_BINS}"
        yield _invalid(said, place, at, got=bins, min=MIN_BINS, max=MAX_BINS)
    threshold = profile.threshold
    if isinstance(threshold, FixedThreshold):
        if threshold.value <= 0:
            place = "profile.threshold.value"
            yield _invalid(
                "a fixed threshold is above 0", place, ("profile", "threshold", "value"), got=threshold.value
            )
    elif not 0 < threshold.alpha < 1:
        said = "alpha must lie between 0 and 1, neither included"
        yield _invalid(said, "alpha", ("profile", "threshold", "alpha"), got=threshold.alpha)
    unknown = [name for name in profile.categorical_features if name not in _features(check)]
    if unknown:
        place = "profile.categorical_features"
        said = f"{unknown[0][:80]!r} is not a feature of the signal"
        yield _invalid(said, place, ("profile", "categorical_features"), unknown=unknown[0])


def _custom(check: DriftCheck, profile: CustomProfile) -> Iterator[RuleFault]:
    name, at = profile.metric_name, ("profile", "metric_name")
    if not name:
        yield _invalid("the metric has no name", "profile.metric_name", at, reason="empty")
    elif isinstance(check.signal, MetricSignal) and name != check.signal.name:
        fields = ["signal.name", "profile.metric_name"]
        said = f"the profile's metric {name[:80]!r} is not the signal's {check.signal.name[:80]!r}"
        yield _invalid(said, "signal.name", ("signal", "name"), fields=fields)
    elif not is_feature(name):
        yield _invalid(f"{name[:80]!r} is not a feature name", "profile.metric_name", at, reason="name")
    if profile.alert_threshold < 0:
        fields = ["profile.baseline_value", "profile.alert_threshold"]
        said = "alert_threshold must be at least 0"
        yield _invalid(said, "profile.baseline_value", ("profile", "alert_threshold"), fields=fields)
