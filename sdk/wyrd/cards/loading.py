"""From a target on disk to decoded Cards: files, envelopes, the references between them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any, Final

from wyrd.cards.card_ref import KINDS, CardRef, Kind
from wyrd.cards.decode import DecodeError, Path, decode_metadata, decode_spec, dotted
from wyrd.cards.diagnostics import LOADER, Diagnostic, Severity
from wyrd.cards.envelope import API_VERSION, Metadata
from wyrd.cards.file_tags import file_text, put, tag_may_stand
from wyrd.cards.identifiers import is_exact_version
from wyrd.cards.links import LinkAt
from wyrd.cards.loaded import LoadedCard
from wyrd.cards.workspace import PathRefused, Workspace, read_file
from wyrd.cards.yaml_reader import Document, YamlRefused, read_documents
from wyrd.errors import Code

MAX_DEPTH: Final = 8
"""How many references deep a Card may lie below its root."""

MAX_FILE_TEXT: Final = 4 * 1024 * 1024
"""How many characters `!file` may bring into one Card."""

MAX_CARDS: Final = 10_000
CARD_ENDINGS: Final = (".yaml", ".yml")

_ENV = Code.LOADER_400_INVALID_ENVELOPE
_YAML = Code.LOADER_400_YAML_SYNTAX


class Loading:
    """One walk from a target. What goes wrong is collected in `diagnostics`."""

    def __init__(self, workspace: Workspace, shown_base: str, real_base: FilePath) -> None:
        self.workspace = workspace
        self.diagnostics: list[Diagnostic] = []
        self.cards: list[LoadedCard] = []
        self._shown_base = shown_base
        self._real_base = real_base
        self._files: dict[FilePath, list[LoadedCard] | None] = {}
        self._counts: dict[FilePath, int] = {}

    def shown(self, real: FilePath) -> str:
        """A real file as messages name it: beside the target, as the caller wrote it."""
        return os.path.normpath(os.path.join(self._shown_base, os.path.relpath(real, self._real_base)))

    def report(
        self,
        code: Code,
        message: str,
        file: str,
        *,
        document: Document | None = None,
        at: Path = (),
        field: str | None = None,
        context: Mapping[str, Any] | None = None,
        severity: Severity = "error",
    ) -> None:
        """Add a diagnostic; `at` is the place from the document's top."""
        line, column = (None, None) if document is None else document.locate(at)
        self.diagnostics.append(
            Diagnostic(code, message, file, severity, field or None, context, line, column)
        )

    def directory(self, real: FilePath) -> None:
        """Load every Card file below the directory, each as a possible root."""
        found: list[FilePath] = []
        for folder, names, files in os.walk(real):
            names.sort()
            found.extend(
                FilePath(folder, name) for name in sorted(files) if name.lower().endswith(CARD_ENDINGS)
            )
            if len(found) > MAX_CARDS:
                self.report(_ENV, f"the directory holds more than {MAX_CARDS} Card files", LOADER)
                return
        if not found:
            self.report(_ENV, "the directory holds no Card file", LOADER, context={"graph_error": "no_cards"})
        for path in found:
            try:
                inside = self.workspace.resolve(real, str(path))
            except PathRefused as error:
                self.report(error.code, str(error), self.shown(path))
                continue
            self.file(inside, 0)

    def file(self, real: FilePath, depth: int) -> list[LoadedCard] | None:
        """The Cards of one file, loaded once; None when anything in it is at fault."""
        if real in self._files:
            return self._files[real]
        shown = self.shown(real)
        # Entered before its references are followed, so that a cycle ends here.
        self._files[real] = None
        try:
            documents = read_documents(read_file(real))
        except PathRefused as error:
            self.report(error.code, str(error), shown)
            return None
        except YamlRefused as error:
            for fault in error.faults:
                self.diagnostics.append(
                    Diagnostic(
                        _YAML,
                        fault.message,
                        shown,
                        field=dotted(fault.path) or None,
                        line=fault.line,
                        column=fault.column,
                    )
                )
            return None
        self._counts[real] = len(documents)
        cards = [self._card(document, real, shown, depth) for document in documents]
        good = [card for card in cards if card is not None]
        self.cards.extend(good)
        if len(good) == len(cards):
            self._files[real] = good
        for card in good:
            self._follow(card)
        return self._files[real]

    def _card(self, document: Document, real: FilePath, shown: str, depth: int) -> LoadedCard | None:
        before = len(self.diagnostics)
        value = document.value
        if not isinstance(value, Mapping | None):
            self.report(_YAML, "a Card is a mapping", shown, document=document)
            return None
        value = value or {}
        api_version = self._api_version(value, document, shown)
        kind = self._kind(value, document, shown)
        metadata = self._metadata(value, kind, document, shown)
        spec = value.get("spec")
        if "spec" not in value:
            said = "the Card has no spec"
            self.report(
                _ENV, said, shown, document=document, field="spec", context=_member("spec", "missing")
            )
        elif not isinstance(spec, dict):
            self.report(_ENV, "spec must be a mapping", shown, document=document, at=("spec",), field="spec")
        if kind is None or not isinstance(spec, dict):
            return None
        if not self._bring_files(spec, kind, document, real, shown):
            return None
        try:
            decoded = decode_spec(kind, spec)
        except DecodeError as error:
            for fault in error.faults:
                self.report(
                    _ENV,
                    f"{fault.field}: {fault.message}" if fault.field else fault.message,
                    shown,
                    document=document,
                    at=("spec", *fault.path),
                    field=fault.field,
                    context={"path": dotted(fault.path), **_member(fault.member, fault.member_fault)},
                )
            return None
        if metadata is None or any(one.severity == "error" for one in self.diagnostics[before:]):
            return None
        return LoadedCard(kind, metadata, decoded, spec, shown, real, document, depth, api_version)

    def _api_version(self, value: Mapping[str, Any], document: Document, shown: str) -> str | None:
        if "apiVersion" not in value:
            return None
        found = value["apiVersion"]
        at: Path = ("apiVersion",)
        if not isinstance(found, str):
            self.report(_YAML, "apiVersion must be text", shown, document=document, at=at)
            return None
        if found != API_VERSION:
            said = f"apiVersion {found[:80]!r} is not {API_VERSION}: registration refuses it"
            self.report(_ENV, said, shown, document=document, at=at, field="apiVersion", severity="warning")
        return found

    def _kind(self, value: Mapping[str, Any], document: Document, shown: str) -> Kind | None:
        found = value.get("kind")
        if "kind" not in value:
            said = "the Card has no kind"
            self.report(
                _ENV, said, shown, document=document, field="kind", context=_member("kind", "missing")
            )
        elif not isinstance(found, str):
            self.report(_YAML, "kind must be text", shown, document=document, at=("kind",))
        elif found not in KINDS:
            said = f"{found[:80]!r} is not a kind of Card; the kinds are {', '.join(KINDS)}"
            self.report(_ENV, said, shown, document=document, at=("kind",), field="kind")
        else:
            return next(kind for kind in KINDS if kind == found)
        return None

    def _metadata(
        self, value: Mapping[str, Any], kind: str | None, document: Document, shown: str
    ) -> Metadata | None:
        if "metadata" not in value:
            said = "the Card has no metadata"
            context = _member("metadata", "missing")
            self.report(_ENV, said, shown, document=document, field="metadata", context=context)
            return None
        found = value["metadata"]
        if not isinstance(found, Mapping | None):
            self.report(_YAML, "metadata must be a mapping", shown, document=document, at=("metadata",))
            return None
        if any(path[:1] == ("metadata",) for path, _ in document.file_tags):
            said = "!file may stand only inside an inline body"
            self.report(_ENV, said, shown, document=document, at=("metadata",), field="metadata")
            return None
        try:
            return decode_metadata(self.workspace.fill(kind or "", found or {}))
        except DecodeError as error:
            for fault in error.faults:
                self._metadata_fault(
                    fault.path, fault.message, fault.member, fault.member_fault, document, shown
                )
        return None

    def _metadata_fault(
        self,
        path: Path,
        message: str,
        member: str | None,
        member_fault: str | None,
        document: Document,
        shown: str,
    ) -> None:
        at: Path = ("metadata", *path)
        if member_fault == "key":
            # The published validator calls a bad key a missing metadata; the true place stands beside it.
            self.report(_ENV, message, shown, document=document, at=at, field="metadata")
            self.report(_ENV, message, shown, document=document, at=at, field=dotted(at))
            return
        if path == ("version",) and message.startswith("must be text"):
            message = "version must be text: quote it, as in '1.10.0'"
        said = f"{dotted(at)}: {message}"
        self.report(
            _YAML,
            said,
            shown,
            document=document,
            at=at,
            field=dotted(at),
            context=_member(member, member_fault),
        )

    def _bring_files(
        self, spec: dict[str, Any], kind: str, document: Document, real: FilePath, shown: str
    ) -> bool:
        good = True
        left = MAX_FILE_TEXT
        for path, tag in document.file_tags:
            if path[:1] != ("spec",):
                continue
            inside = path[1:]
            if not tag_may_stand(kind, inside):
                said = "!file may stand only inside an inline body"
                self.report(_ENV, said, shown, document=document, at=path, field=dotted(inside))
                good = False
                continue
            try:
                text = file_text(tag, real.parent, self.workspace)
                left -= len(text)
                if left < 0:
                    raise PathRefused(Code.LOADER_400_IO, f"!file texts are over {MAX_FILE_TEXT} characters")
                put(spec, inside, text)
            except PathRefused as error:
                self.report(error.code, str(error), shown, document=document, at=path, field=dotted(inside))
                good = False
        return good

    def _follow(self, card: LoadedCard) -> None:
        for link in card.links:
            if isinstance(link.value, str):
                child = self._child(card, link, link.value)
                if child is not None:
                    card.children[link.path] = child
            elif isinstance(link.value, CardRef) and link.value.uid is not None:
                said = "an authored reference carries no uid: the registry gives it"
                self._at_link(card, link, _ENV, said, field=link.field)

    def _at_link(
        self,
        card: LoadedCard,
        link: LinkAt,
        code: Code,
        message: str,
        *,
        field: str | None = None,
        severity: Severity = "error",
    ) -> None:
        self.report(
            code,
            message,
            card.file,
            document=card.document,
            at=("spec", *link.path),
            field=field,
            context={"field": link.field},
            severity=severity,
        )

    def _child(self, card: LoadedCard, link: LinkAt, text: str) -> LoadedCard | None:
        try:
            real = self.workspace.resolve(card.real.parent, text)
            if not text or real.is_dir():
                said = f"{text[:200]!r} is a directory, not a Card file"
                self.report(_ENV, said, self.shown(real))
                raise PathRefused(_ENV, said)
            if not real.exists():
                raise PathRefused(Code.LOADER_400_IO, f"{text[:200]!r} does not exist")
            child = self._only_card(card, real)
        except PathRefused as error:
            self._at_link(card, link, error.code, str(error))
            child = None
        except OSError as error:
            self._at_link(card, link, Code.LOADER_400_IO, f"{text[:200]!r}: {error.strerror}")
            child = None
        if child is None:
            said = f"{link.field}: the Card at {text[:200]!r} cannot be used"
            self._at_link(card, link, Code.REGISTRY_400_UNRESOLVED_PATH_REF, said, field=link.field)
            return None
        if os.path.isabs(text):
            said = f"{text[:200]!r} is an absolute path"
            advisory = Code.LOADER_400_PATH_ABSOLUTE_ADVISORY
            self._at_link(card, link, advisory, said, field=link.field, severity="warning")
        return child

    def _only_card(self, card: LoadedCard, real: FilePath) -> LoadedCard | None:
        """The one Card of a referenced file. Raises `PathRefused` for what the parent must be told."""
        if real not in self._files and card.depth >= MAX_DEPTH:
            raise PathRefused(_ENV, f"references go deeper than {MAX_DEPTH}")
        cards = self.file(real, card.depth + 1)
        if self._counts.get(real, 1) != 1:
            raise PathRefused(_ENV, "a referenced file holds exactly one Card")
        if cards is None:
            raise PathRefused(_ENV, f"failed to parse {self.shown(real)}")
        child = cards[0]
        version = child.metadata.version
        if version is None or not is_exact_version(version):
            said = "a referenced Card carries an exact metadata.version"
            at: Path = ("metadata", "version")
            context = {"field": "metadata.version"}
            self.report(_ENV, said, child.file, document=child.document, at=at, context=context)
            return None
        return child


def _member(member: str | None, fault: str | None) -> dict[str, Any]:
    return {} if member is None else {"member": member, "member_fault": fault}
