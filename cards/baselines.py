"""Which baselines a Verifier that is being declared asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from store.baselines import Baselines
from store.cards import StoredCard
from wyrd.cards import DriftCheck, VerifierSpec, decode_spec
from wyrd.cards.drift import DistributionSignal


def begin_baselines(baselines: Baselines, card: StoredCard, document: Mapping[str, Any]) -> None:
    """Note what is to be fitted for a Card that is being stored; fitting is a background duty's."""
    if card.kind != "Verifier":
        return
    spec = decode_spec("Verifier", dict(document))
    assert isinstance(spec, VerifierSpec)
    stepwise = [one for step in spec.steps for one in step.requirements]
    baselines.begin(
        card.uid,
        [
            requirement.id
            for requirement in [*spec.requirements, *stepwise]
            if isinstance(requirement.check, DriftCheck)
            and isinstance(requirement.check.signal, DistributionSignal)
        ],
    )
