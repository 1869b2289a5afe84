"""What checking Cards has to say: diagnostics, and the report that carries them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from wyrd.errors import Code, WyrdError

Severity = Literal["error", "warning"]
LOADER: Final = "<loader>"
"""Stands for a file where a fault belongs to the graph of Cards."""


@dataclass(frozen=True)
class Diagnostic:
    """One fault or advice. `path` is the file, `field` the place in the Card, line and column from 1."""

    code: Code
    message: str
    path: str = LOADER
    severity: Severity = "error"
    field: str | None = None
    context: Mapping[str, Any] | None = None
    line: int | None = None
    column: int | None = None

    @property
    def status(self) -> int:
        return self.code.status

    @property
    def remediation(self) -> str:
        return self.code.remedy

    @property
    def rule(self) -> str | None:
        """The semantic rule's name, when one was broken."""
        return None if self.context is None else self.context.get("rule")

    def to_document(self) -> dict[str, Any]:
        """The diagnostic as plain JSON data."""
        return {
            "code": str(self.code),
            "status": self.status,
            "severity": self.severity,
            "path": self.path,
            "message": f"[{self.code}] {self.message}",
            "remediation": self.remediation,
            "context": None if self.context is None else dict(self.context),
            "field": self.field,
            "line": self.line,
            "column": self.column,
        }


@dataclass(frozen=True)
class CheckedCard:
    """One accepted Card's identity; `version` is as authored, None when omitted."""

    kind: str
    space: str
    name: str
    version: str | None

    def to_document(self) -> dict[str, Any]:
        return {"kind": self.kind, "space": self.space, "name": self.name, "version": self.version}


@dataclass
class CheckReport:
    """The outcome of a check: the Cards in dependency-first order, and every diagnostic."""

    cards: list[CheckedCard] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)

    @property
    def errors(self) -> list[Diagnostic]:
        return [one for one in self.diagnostics if one.severity == "error"]

    @property
    def warnings(self) -> list[Diagnostic]:
        return [one for one in self.diagnostics if one.severity == "warning"]

    @property
    def ok(self) -> bool:
        return not self.errors

    def to_document(self) -> dict[str, Any]:
        """The document that a successful check prints."""
        return {
            "ok": self.ok,
            "cards": [card.to_document() for card in self.cards],
            "diagnostics": [one.to_document() for one in self.diagnostics],
        }

    def error_document(self) -> dict[str, Any]:
        """The document that a failed check prints."""
        error = self.error()
        return {
            "kind": "wyrd_cli_error",
            "code": error.code,
            "status": error.status,
            "title": error.title,
            "message": error.message,
            "remediation": error.remediation,
            "details": error.details,
        }

    def error(self) -> WyrdError:
        """The failed check as an exception, `details.diagnostics` holding everything found."""
        count = len(self.errors)
        said = f"{count} fault{'' if count == 1 else 's'} in the Cards"
        if count:
            said += f"; the first: {self.errors[0].message}"
        return WyrdError(
            Code.CLI_400_CARD_LOAD, said, diagnostics=[one.to_document() for one in self.diagnostics]
        )
