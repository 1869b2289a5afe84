"""The exact name of one Card version, as it travels in requests, answers and results."""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel, ConfigDict

_TEXT = re.compile(
    r"^([a-z][a-z0-9_-]{2,63})/([A-Z][A-Za-z]*)/([a-z][a-z0-9_-]{2,63})@([^#\s]+)(?:#([0-9a-fA-F-]{36}))?$"
)


class CardRef(BaseModel):
    """`kind`, `name`, exact `version`, `space`, and the `uid` where the registry has given one."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: str
    name: str
    version: str
    space: str = "default"
    uid: str | None = None

    @classmethod
    def parse(cls, text: str) -> CardRef:
        """Read the text form `space/Kind/name@version[#uid]`. Raises ValueError."""
        found = _TEXT.match(text)
        if found is None:
            raise ValueError(f"{text[:120]!r} is not of the form space/Kind/name@version[#uid]")
        space, kind, name, version, uid = found.groups()
        return cls(kind=kind, name=name, version=version, space=space, uid=uid)

    def __str__(self) -> str:
        tail = f"#{self.uid}" if self.uid else ""
        return f"{self.space}/{self.kind}/{self.name}@{self.version}{tail}"

    @property
    def pinned(self) -> str:
        """The text form without the uid."""
        return f"{self.space}/{self.kind}/{self.name}@{self.version}"

    def document(self) -> dict[str, Any]:
        """The JSON object form; `uid` is left out where there is none."""
        return self.model_dump(mode="json", exclude_none=True)
