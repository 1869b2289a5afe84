"""The Card registry of a server."""

from __future__ import annotations

import os

from wyrd._client import declaration, registry
from wyrd._client.card_files import CardFiles
from wyrd._client.envelope import CardEnvelope
from wyrd._client.pulling import PullSummary, pull
from wyrd.client import WyrdClient
from wyrd.wire.cards import CardDeleted, CardItem, CardPage, DeclareReceipt
from wyrd.wire.refs import CardRef

__all__ = ["CardDeleted", "CardEnvelope", "CardItem", "CardPage", "Cards", "DeclareReceipt", "PullSummary"]


class Cards:
    """Declare, read and retire Cards.

    A `ref` is a CardRef or its text form `space/Kind/name@version[#uid]`. Common errors:
    REGISTRY_404_CARD_NOT_FOUND, PERMISSION_403_DENIED_RBAC.
    """

    def __init__(self, client: WyrdClient | None = None) -> None:
        self._client = client or WyrdClient()

    def declare(self, path: str | os.PathLike[str], *, files: CardFiles | None = None) -> DeclareReceipt:
        """Declare the Card file (or folder) and all it refers to; `root` and `outcomes` come back.

        `files` are those of Cards that have any, such as the data of a baseline: by `space/Kind/name`,
        one path or several. Only what the server lacks is uploaded.
        Errors: CLI_400_CARD_LOAD with diagnostics before any request; REGISTRY_409_SPEC_DRIFT,
        REGISTRY_422_UNRESOLVED_DEPENDENCY, REGISTRY_507_ARTIFACT_VERIFY_FAILED.
        """
        return self._client._run(declaration.declare(self._client.server_url, path, files=files))

    def get(self, ref: CardRef | str) -> CardEnvelope:
        """One exact Card."""
        return self._client._run(registry.get(self._client.server_url, registry.as_ref(ref)))

    def list(
        self,
        *,
        kind: str | None = None,
        space: str | None = None,
        name: str | None = None,
        version_range: str | None = None,
        status: str | None = None,
        filter: str | None = None,
        include_prerelease: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> CardPage:
        """One page of Cards; pass its `next_cursor` as `cursor` for the next."""
        filters = {
            "kind": kind,
            "space": space,
            "name": name,
            "version_range": version_range,
            "status": status,
            "filter": filter,
            "include_prerelease": include_prerelease,
            "limit": limit,
            "cursor": cursor,
        }
        return self._client._run(registry.listing(self._client.server_url, filters))

    def resolve_latest(self, kind: str, space: str, name: str) -> CardEnvelope:
        """The highest active version of a Card that is no pre-release."""
        return self._client._run(registry.latest(self._client.server_url, kind, space, name))

    def pull(
        self,
        card_ref: CardRef | str,
        destination: str | os.PathLike[str],
        metadata_only: bool = False,
    ) -> PullSummary:
        """Write a Card and every Card it refers to into a bundle, with all their files.

        A Service's bundle is what `WyrdState.from_path` loads. An earlier bundle at `destination` is
        replaced once the new one is whole. `metadata_only` leaves the files out: to look at, not to run.
        Errors: CLIENT_400_CONFIG_INVALID when `destination` holds anything but a bundle;
        LOADER_400_IO, REGISTRY_507_ARTIFACT_VERIFY_FAILED, SDK_400_INVALID_STATE_BUNDLE.
        """
        ref = registry.as_ref(card_ref)
        return self._client._run(pull(self._client.server_url, ref, destination, metadata_only))

    def delete(self, ref: CardRef | str) -> CardDeleted:
        """Delete one exact Card; `deleted` is false when it was deleted before."""
        return self._client._run(registry.delete(self._client.server_url, registry.as_ref(ref)))

    def deactivate(self, ref: CardRef | str) -> CardEnvelope:
        """Take one exact Card out of service; its bindings stop until it is reactivated."""
        return self._turn(ref, "deactivate")

    def reactivate(self, ref: CardRef | str) -> CardEnvelope:
        """Put a deactivated Card back into service."""
        return self._turn(ref, "reactivate")

    def _turn(self, ref: CardRef | str, to: str) -> CardEnvelope:
        return self._client._run(registry.turn(self._client.server_url, registry.as_ref(ref), to))
