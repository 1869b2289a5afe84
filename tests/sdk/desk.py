"""A support desk stored at the peer: a Service, its Agent and Prompt, and their Verifiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.sdk.peer import Peer


@dataclass
class Desk:
    service: dict[str, Any]
    agent: dict[str, Any]
    prompt: dict[str, Any]
    verifiers: dict[str, dict[str, Any]]


def _verifier(
    peer: Peer,
    name: str,
    inputs: dict[str, Any],
    checks: Sequence[dict[str, Any]] = (),
    version: str = "1.0.0",
) -> dict[str, Any]:
    requirements = [{"id": f"r{number}", "check": check} for number, check in enumerate(checks)]
    return peer.store("Verifier", name, {"inputs": inputs, "requirements": requirements}, version=version)


def stored_desk(peer: Peer) -> Desk:
    verifiers = {
        "polite": _verifier(peer, "polite", {"answer": {"type": "json"}}),
        "letter": _verifier(
            peer, "letter", {"letter": {"type": "media", "formats": ["markdown"], "max_bytes": 64}}
        ),
        "mixed": _verifier(
            peer,
            "mixed",
            {
                "doc": {"type": "media", "formats": ["pdf", "text"]},
                "spans": {"type": "trace"},
                "note": {"type": "json", "required": False},
            },
        ),
        "drift": _verifier(
            peer,
            "drift",
            {"scores": {"type": "samples", "features": ["score", "charted", "measured", "named"]}},
            [
                {
                    "kind": "drift",
                    "on": "inputs.scores",
                    "signal": {"kind": "Distribution", "features": ["charted", "named"]},
                    "profile": {"kind": "Psi", "categorical_features": ["named"]},
                },
                {"kind": "drift", "on": "inputs.scores", "signal": {"kind": "Metric", "name": "measured"}},
            ],
        ),
        "group": _verifier(peer, "group", {"turns": "verifiers.polite.inputs.answer"}),
        "polite-2": _verifier(peer, "polite", {"answer": {"type": "json"}}, version="2.0.0"),
    }

    def bound(*names: str) -> list[dict[str, Any]]:
        return [{"verifier": verifiers[name]} for name in names]

    prompt = peer.store("Prompt", "desk-prompt", {"model": "m", "provider": "openai"})
    agent = peer.store(
        "Agent",
        "desk-agent",
        {"prompt": prompt, "verified_by": bound("polite-2", "letter")},
        refers_to=[prompt, verifiers["polite-2"], verifiers["letter"]],
    )
    service = peer.store(
        "Service",
        "desk",
        {
            "verified_by": bound("polite", "drift", "group", "mixed"),
            "components": [
                {"alias": "agent", "ref": agent, "verified_by": bound("polite", "letter", "mixed")},
                {"alias": "prompt", "ref": prompt},
            ],
        },
        refers_to=[agent, prompt, *verifiers.values()],
    )
    return Desk(service, agent, prompt, verifiers)


CARD = """\
apiVersion: wyrd/v1
kind: Service
metadata: {name: desk, version: 1.0.0, space: default}
spec: {service_type: agent}
"""
"""A file to declare; the peer answers with the stored desk, whatever is in it."""


def receipt(desk: Desk, outcome: str = "declared") -> dict[str, Any]:
    return {
        "root": desk.service,
        "outcomes": [
            {
                "card_ref": desk.service,
                "spec_hash": "0" * 64,
                "status": "active",
                "outcome": outcome,
            }
        ],
        "upload_plans": [],
    }
