"""One broken rule, before it is tied to a file and a line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as member
from typing import Any

from wyrd.cards.decode import Path, dotted
from wyrd.cards.diagnostics import Severity
from wyrd.errors import Code


@dataclass(frozen=True)
class RuleFault:
    """`at` is the exact place in the spec, `place` the one that diagnostics name (`at` if empty)."""

    message: str
    at: Path = ()
    rule: str | None = None
    place: str | None = None
    code: Code = Code.SPEC_400_VALIDATION
    severity: Severity = "error"
    extra: Mapping[str, Any] = member(default_factory=dict)

    @property
    def field(self) -> str:
        return dotted(self.at) if self.place is None else self.place

    @property
    def context(self) -> dict[str, Any] | None:
        if self.rule is None:
            return dict(self.extra) or None
        return {"rule": self.rule, "path": self.field, **self.extra}
