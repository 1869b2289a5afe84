"""A Service at the peer that can be pulled: a Verifier, and an Artifact with two files and two aliases."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.sdk.peer import Answer, Peer, Seen

FILES = {"deep/er/data.bin": bytes(range(256)) * 5000, "policy.md": b"# Erstattung\n"}

VERIFIER: dict[str, Any] = {
    "inputs": {"answer": {"type": "json"}},
    "requirements": [
        {
            "id": "polite",
            "statement": 'Says "please": always\n  and never no',
            "check": {
                "kind": "assert",
                "path": "inputs.answer.tone",
                "operator": "equals",
                "expected": {"a": "no", "b": "0o17", "c": "1e5", "d": 1.5, "e": None, "f": "\u2028 \x85 🙂"},
            },
        }
    ],
}


def base64_digest(content: bytes) -> str:
    return base64.b64encode(hashlib.sha256(content).digest()).decode("ascii")


@dataclass
class Bundled:
    """The exact references; `served` is what the peer sends for a file, by path."""

    service: dict[str, Any]
    artifact: dict[str, Any]
    verifier: dict[str, Any]
    served: dict[str, bytes]

    @property
    def ref(self) -> str:
        return "{space}/{kind}/{name}@{version}".format(**self.service)


def _answered(answer: Answer, _: Seen) -> Answer:
    return answer


def stored_bundle(peer: Peer) -> Bundled:
    verifier = peer.store("Verifier", "polite", VERIFIER)
    artifact = peer.store("Artifact", "policy", {"artifact_kind": "text"})
    service = peer.store(
        "Service",
        "desk",
        {
            "service_type": "agent",
            "verified_by": [{"verifier": verifier}],
            "components": [{"alias": "policy", "ref": artifact}, {"alias": "Again/x", "ref": artifact}],
        },
    )
    peer.cards[service["uid"]]["relationships"] = {
        "outbound_refs": [
            {"ref": artifact, "alias": "policy"},
            {"ref": artifact, "alias": "Again/x"},
            {"ref": verifier},
        ]
    }
    served = dict(FILES)
    listed = [
        {"relative_path": path, "sha256": base64_digest(content), "size_bytes": len(content)}
        for path, content in FILES.items()
    ]
    for ref in (verifier, artifact, service):
        own = listed if ref is artifact else []
        answer = Answer(body={"artifacts": own})
        peer.routes["GET", f"/v1/cards/{ref['uid']}/artifacts"] = partial(_answered, answer)

    def planned(seen: Seen) -> Answer:
        path = seen.json["relative_path"]
        assert seen.json == {"card_uid": artifact["uid"], "relative_path": path, "ttl_secs": None}
        plan = {"get_url": f"/v1/cards/download/local?path={path}&signature=s", "ttl_secs": 60}
        content = FILES[path]
        return Answer(body={"plan": plan, "size_bytes": len(content), "sha256": base64_digest(content)})

    peer.routes["POST", "/v1/cards/download/init"] = planned
    peer.routes["GET", "/v1/cards/download/local"] = lambda seen: Answer(raw=served[seen.query["path"]])
    return Bundled(service, artifact, verifier, served)
