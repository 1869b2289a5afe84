"""Reading a bundle from the disk, believing none of it: no network, nothing outside its folder."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from wyrd._client.bundle_layout import alias_document, alias_path
from wyrd._client.envelope import CardEnvelope
from wyrd._client.graph import Graph, build, outbound
from wyrd._client.publication import disk
from wyrd.errors import Code, WyrdError
from wyrd.wire.bundle import MANIFEST, BundledCard, BundleManifest
from wyrd.wire.refs import CardRef

_HELD = ("aliases", "cards")
_READ = 1 << 20


@dataclass(frozen=True, slots=True)
class Bundle:
    """What a folder holds: the exact root and every Card reachable from it, by UID."""

    root: CardRef
    cards: dict[str, CardEnvelope]


def load_bundle(folder: str | os.PathLike[str]) -> Graph:
    """The graph of a bundle of a Service, every file of it checked.

    SDK_400_INVALID_STATE_BUNDLE with `details.path` and `details.field` where they are known.
    """
    bundle = read_bundle(folder)
    return build(bundle.cards[bundle.root.uid or ""], bundle.cards)


def read_bundle(folder: str | os.PathLike[str], *, complete: bool = True) -> Bundle:
    """Every Card of a bundle, after every check. `complete` also asks for the Cards' files."""
    with disk():
        return _Reading(Path(os.path.realpath(folder)), complete).bundle()


def _broken(path: str, detail: str, **details: Any) -> WyrdError:
    return WyrdError(Code.SDK_400_INVALID_STATE_BUNDLE, f"{path}: {detail}", path=path, **details)


class _Reading:
    def __init__(self, folder: Path, complete: bool) -> None:
        self._folder = folder
        self._complete = complete

    def bundle(self) -> Bundle:
        if not stat.S_ISREG(self._mode(MANIFEST)):
            raise _broken(MANIFEST, f"{self._folder} is no bundle: this file is missing or no plain file")
        manifest = self._manifest()
        self._check_names(manifest)
        self._check_files(manifest)
        cards = {entry.card_ref.uid or "": self._card(entry) for entry in manifest.cards}
        self._check_graph(manifest, cards)
        return Bundle(manifest.root, cards)

    def _mode(self, path: str) -> int:
        try:
            return os.lstat(self._folder / path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def _yaml(self, path: str, content: bytes | None = None) -> Any:
        from wyrd.cards.yaml_reader import MAX_FILE_BYTES, YamlRefused, read_documents

        if content is None:
            content = self._content(path, MAX_FILE_BYTES)
        try:
            documents = read_documents(content)
        except YamlRefused as refused:
            first = refused.faults[0]
            raise _broken(path, f"line {first.line}, column {first.column}: {first.message}") from None
        if len(documents) != 1 or documents[0].file_tags or documents[0].not_finite:
            raise _broken(path, "is not one document of plain data")
        return documents[0].value

    def _content(self, path: str, most: int) -> bytes:
        with (self._folder / path).open("rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise _broken(path, f"is over {most} bytes")
        return content

    def _manifest(self) -> BundleManifest:
        document = self._yaml(MANIFEST)
        try:
            manifest = BundleManifest.model_validate(document)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            field = ".".join(str(part) for part in first["loc"])
            raise _broken(MANIFEST, f"{field or 'the document'}: {first['msg']}", field=field) from None
        if self._complete and manifest.mode != "complete":
            raise _broken(
                MANIFEST, "only metadata was pulled; pull again without --metadata-only", field="mode"
            )
        return manifest

    def _check_names(self, manifest: BundleManifest) -> None:
        uids: set[str] = set()
        aliases: dict[str, str] = {}
        for index, entry in enumerate(manifest.cards):
            where = f"cards[{index}]"
            uid = entry.card_ref.uid
            if uid is None:
                raise _broken(MANIFEST, f"{entry.card_ref} has no uid", field=f"{where}.card_ref")
            if uid in uids:
                raise _broken(MANIFEST, f"{entry.card_ref} is listed twice", field=f"{where}.card_ref")
            uids.add(uid)
            for alias in entry.aliases:
                if alias in aliases:
                    raise _broken(
                        MANIFEST, f"the alias {alias[:80]!r} is given twice", field=f"{where}.aliases"
                    )
                aliases[alias] = uid
        if manifest.root.uid not in uids:
            raise _broken(MANIFEST, f"the root {manifest.root} is not among the Cards", field="root")
        counts = (manifest.card_count, manifest.artifact_count, manifest.downloaded_artifact_count)
        files = sum(len(entry.artifacts) for entry in manifest.cards)
        if counts != (len(manifest.cards), files, files if manifest.mode == "complete" else 0):
            raise _broken(MANIFEST, "its counts are not those of its Cards", field="card_count")

    def _check_files(self, manifest: BundleManifest) -> None:
        """Every file that is listed is there, and nothing else is: no link, no further file."""
        wanted: set[str] = set()
        for path in _listed(manifest):
            if path in wanted or path.split("/")[0] not in _HELD:
                raise _broken(
                    MANIFEST, f"the path {path[:200]!r} is listed twice or out of place", field="cards"
                )
            wanted.add(path)
        found: set[str] = set()
        for held in _HELD:
            if stat.S_ISLNK(self._mode(held)):
                raise _broken(held, "is a link")
            found.update(self._walk(held))
        if missing := sorted(wanted - found):
            raise _broken(missing[0], "is listed and missing")
        if extra := sorted(found - wanted):
            raise _broken(extra[0], "is not part of the bundle")

    def _walk(self, held: str) -> Iterator[str]:
        waiting = [held]
        while waiting:
            here = waiting.pop()
            if not stat.S_ISDIR(self._mode(here)):
                continue
            with os.scandir(self._folder / here) as entries:
                for entry in entries:
                    path = f"{here}/{entry.name}"
                    if entry.is_symlink():
                        raise _broken(path, "is a link")
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(path)
                    elif entry.is_file(follow_symlinks=False):
                        yield path
                    else:
                        raise _broken(path, "is no plain file")

    def _card(self, entry: BundledCard) -> CardEnvelope:
        from wyrd.cards.yaml_reader import MAX_FILE_BYTES

        path = entry.card_path
        content = self._content(path, MAX_FILE_BYTES)
        if entry.card_sha256 is not None and _base64(hashlib.sha256(content)) != entry.card_sha256:
            raise _broken(
                path, "is not the file that was pulled: its digest is another", card=str(entry.card_ref)
            )
        document = self._yaml(path, content)
        if not isinstance(document, dict) or document.get("apiVersion") != "wyrd/v1":
            raise _broken(path, "is no Card of apiVersion wyrd/v1", field="apiVersion")
        try:
            card = CardEnvelope(document)
        except WyrdError as error:
            raise _broken(path, error.detail) from None
        if card.card_ref != entry.card_ref:
            raise _broken(path, f"is {card.card_ref}, not {entry.card_ref}", field="metadata")
        if self._yaml(entry.relationships_path) != (document.get("relationships") or {}):
            raise _broken(entry.relationships_path, "is not what its Card says")
        if self._yaml(entry.artifact_inventory_path) != [one.model_dump() for one in entry.artifacts]:
            raise _broken(entry.artifact_inventory_path, "is not what metadata.yaml says")
        for alias in entry.aliases:
            if self._yaml(alias_path(alias)) != alias_document(alias, entry):
                raise _broken(alias_path(alias), "is not what metadata.yaml says")
        self._check_links(path, card)
        if self._complete:
            self._check_artifacts(entry)
        return card

    def _check_links(self, path: str, card: CardEnvelope) -> None:
        """What the spec names is what the relationships say, every one by its UID."""
        from wyrd.cards.decode import DecodeError, decode_spec
        from wyrd.cards.links import links

        document = card.model_dump()
        try:
            spec = decode_spec(card.card_ref.kind, document["spec"])
        except DecodeError as error:
            raise _broken(path, f"spec: {error}", field=f"spec.{error.field}") from None
        named: set[tuple[str, str | None]] = set()
        for link in links(spec):
            if not isinstance(link.value, CardRef) or link.value.uid is None:
                raise _broken(path, f"{link.field} is not pinned to a uid", field=link.field)
            named.add((str(link.value), link.alias))
        try:
            related = {(str(ref), alias) for ref, alias in outbound(card)}
        except WyrdError as error:
            raise _broken(path, error.detail, field=error.details.get("field")) from None
        if named != related:
            odd = sorted(ref for ref, _ in named ^ related)[0]
            raise _broken(path, f"spec and relationships differ about {odd}", field="relationships")

    def _check_artifacts(self, entry: BundledCard) -> None:
        for one in entry.artifacts:
            path = one.local_path or ""
            # Not before the size fits: a digest over something huge takes its time.
            if os.lstat(self._folder / path).st_size != one.size_bytes:
                raise _broken(path, f"has not the {one.size_bytes} bytes it is declared with")
            digest = hashlib.sha256()
            with (self._folder / path).open("rb") as file:
                while piece := file.read(_READ):
                    digest.update(piece)
            if _base64(digest) != one.sha256:
                raise _broken(path, "is not the file that was pulled: its digest is another")

    def _check_graph(self, manifest: BundleManifest, cards: dict[str, CardEnvelope]) -> None:
        """The Cards are exactly those reachable from the root, and go by the names it gives them."""
        entries = {entry.card_ref.uid or "": entry for entry in manifest.cards}
        root = entries[manifest.root.uid or ""]
        if root.card_ref != manifest.root:
            raise _broken(MANIFEST, f"the root is {root.card_ref}, not {manifest.root}", field="root")
        reached: set[str] = set()
        waiting = [manifest.root]
        while waiting:
            ref = waiting.pop()
            uid = ref.uid or ""
            if uid not in cards:
                raise _broken(MANIFEST, f"{ref} is referred to and missing", card=str(ref))
            if ref != cards[uid].card_ref:
                raise _broken(entries[uid].card_path, f"is {cards[uid].card_ref}, not {ref}")
            if uid not in reached:
                reached.add(uid)
                waiting.extend(target for target, _ in outbound(cards[uid]))
        for uid in cards.keys() - reached:
            raise _broken(entries[uid].card_path, f"{cards[uid].card_ref} is not reachable from the root")
        for ref, alias in outbound(cards[manifest.root.uid or ""]):
            if alias is not None and alias not in entries[ref.uid or ""].aliases:
                raise _broken(MANIFEST, f"the component {alias[:80]!r} is not among the aliases of {ref}")


def _listed(manifest: BundleManifest) -> Iterator[str]:
    for entry in manifest.cards:
        yield from (entry.card_path, entry.relationships_path, entry.artifact_inventory_path)
        for one in entry.artifacts:
            if manifest.mode == "metadata":
                if one.local_path is not None:
                    raise _broken(
                        MANIFEST, f"{one.relative_path} was not pulled and has a place", field="mode"
                    )
                continue
            folder = entry.card_path.rpartition("/")[0]
            if one.local_path != f"{folder}/artifacts/{one.relative_path}":
                raise _broken(MANIFEST, f"{one.relative_path} is out of place", field="artifacts")
            yield one.local_path
        yield from map(alias_path, entry.aliases)


def _base64(digest: Any) -> str:
    return base64.b64encode(digest.digest()).decode("ascii")
