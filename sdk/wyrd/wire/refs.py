"""The exact name of one Card version: in Cards, requests, answers and results."""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from wyrd.wire.names import DEFAULT_SPACE, ExactVersion, Kind, Name, Uid

_TEXT = re.compile(r"([^/@#]+)/([^/@#]+)/([^/@#]+)@([^/@#]+)(?:#([^/@#]+))?")


class CardRef(BaseModel):
    """One exact Card version: `space/Kind/name@version`, with `#uid` once the registry knows it.

    Unknown members are ignored, as the published validator does.
    """

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, defer_build=True)

    kind: Kind
    name: Name
    version: ExactVersion
    space: Name = DEFAULT_SPACE
    uid: Uid | None = None

    @classmethod
    def parse(cls, text: str) -> CardRef:
        """Read the text form `space/Kind/name@version[#uid]`. Raises ValueError when it is not one."""
        found = _TEXT.fullmatch(text)
        if found is not None:
            space, kind, name, version, uid = found.groups()
            members = {"kind": kind, "name": name, "version": version, "space": space, "uid": uid}
            try:
                return cls.model_validate(members)
            except ValidationError:
                pass
        raise ValueError(f"{text[:120]!r} is not a reference of the form space/Kind/name@version[#uid]")

    def __str__(self) -> str:
        tail = f"#{self.uid}" if self.uid is not None else ""
        return f"{self.pinned}{tail}"

    @property
    def pinned(self) -> str:
        """The text form without the uid: what identifies a version before it is stored."""
        return f"{self.space}/{self.kind}/{self.name}@{self.version}"

    def document(self) -> dict[str, Any]:
        """The JSON object form; `uid` is left out where there is none."""
        return self.model_dump(mode="json", exclude_none=True)
