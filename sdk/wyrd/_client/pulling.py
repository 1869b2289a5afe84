"""Pulling a Card with everything it refers to into a bundle on the disk."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from wyrd._client import registry
from wyrd._client.answers import unanswered_error
from wyrd._client.bundle_layout import laid_out
from wyrd._client.bundle_reading import read_bundle
from wyrd._client.calls import PAUSES, Call
from wyrd._client.flow import Flow, Offload, Pause, Unanswered
from wyrd._client.graph import reach
from wyrd._client.publication import Publication
from wyrd._client.saving import Save, TooLong
from wyrd._client.servers import upload_url
from wyrd.errors import Code, WyrdError
from wyrd.wire.bundle import BundledFile
from wyrd.wire.cards import ArtifactInventory, DownloadPlan, digest_base64
from wyrd.wire.refs import CardRef


@dataclass(frozen=True, slots=True)
class PullSummary:
    """What was published where. `root` is exact; counts are of Cards, declared files, files fetched."""

    root: CardRef
    destination: Path
    mode: Literal["complete", "metadata"]
    card_count: int
    artifact_count: int
    downloaded_artifact_count: int


def pull(
    server_url: str, ref: CardRef, destination: str | os.PathLike[str], metadata_only: bool = False
) -> Flow[PullSummary]:
    """Fetch, check and publish; the destination is as it was when any of that fails.

    Errors: CLIENT_400_CONFIG_INVALID for a destination that holds something else; LOADER_400_IO;
    REGISTRY_404_CARD_NOT_FOUND; REGISTRY_507_ARTIFACT_VERIFY_FAILED; SDK_400_INVALID_STATE_BUNDLE
    for a graph that is not whole.
    """
    publication: Publication = yield Offload(lambda: Publication(destination))
    try:
        root = (yield from registry.get(server_url, ref)).card_ref
        cards = yield from reach(server_url, root)
        inventories: dict[str, ArtifactInventory] = {}
        for uid in cards:
            inventories[uid] = yield from Call("GET", f"/v1/cards/{uid}/artifacts").model(
                server_url, ArtifactInventory
            )
        manifest, files = laid_out(root, cards, inventories, complete=not metadata_only)
        yield Offload(lambda: publication.write(files))
        for entry in manifest.cards:
            for one in entry.artifacts:
                if one.local_path is not None:
                    place: Path = yield Offload(partial(publication.place, one.local_path))
                    yield from _download(server_url, entry.card_ref, one, place)
        # What could not be loaded again is not published.
        yield Offload(lambda: read_bundle(publication.folder, complete=not metadata_only))
        yield Offload(publication.publish)
    except BaseException:
        publication.discard()
        raise
    return PullSummary(
        root,
        publication.target,
        manifest.mode,
        manifest.card_count,
        manifest.artifact_count,
        manifest.downloaded_artifact_count,
    )


def _download(server_url: str, card: CardRef, file: BundledFile, place: Path) -> Flow[None]:
    """One file, from wherever the server says it is, checked by size and digest."""
    pauses = list(PAUSES)
    while True:
        plan = yield from Call(
            "POST",
            "/v1/cards/download/init",
            json={"card_uid": card.uid, "relative_path": file.relative_path, "ttl_secs": None},
        ).model(server_url, DownloadPlan)
        if (plan.sha256, plan.size_bytes) != (file.sha256, file.size_bytes):
            raise _other(card, file, "the server offers another file than its inventory lists")
        url = upload_url(server_url, plan.plan.get_url, with_token=False)
        headers = {"accept-encoding": "identity"}
        reply = yield from Call("GET", url, headers=headers, bare=True, streamed=True).run(server_url)
        try:
            digest: str = yield Save(reply.rest, place, file.size_bytes)
        except Unanswered as fault:
            if not pauses:
                raise unanswered_error(fault) from None
            yield Pause(pauses.pop(0))
            continue
        except TooLong:
            raise _other(card, file, f"more was sent than its {file.size_bytes} bytes") from None
        if digest_base64(digest) != file.sha256:
            raise _other(card, file, "what was sent is not the declared file")
        return


def _other(card: CardRef, file: BundledFile, detail: str) -> WyrdError:
    return WyrdError(
        Code.REGISTRY_507_ARTIFACT_VERIFY_FAILED,
        f"{card.pinned}, {file.relative_path}: {detail}",
        card_ref=str(card),
        relative_path=file.relative_path,
    )
