"""What exists in the pinned evidence of each slot, for checking citations against it."""

from __future__ import annotations

from collections import OrderedDict

from activities.context import ExecutionContext
from activities.extract import inspect_file
from activities.files import FileShelf
from engine.citations import Places
from engine.failure import BlockFailure

_KEPT = 64
_SECONDS = 60.0


class PlaceFinder:
    """Places of recently read files by tenant, digest and format."""

    def __init__(self, shelf: FileShelf) -> None:
        self._shelf = shelf
        self._kept: OrderedDict[tuple[str, str, str], Places] = OrderedDict()

    async def of(self, context: ExecutionContext, slots: set[str]) -> dict[str, Places]:
        """The places of those slots; a slot that is unknown, absent or unreadable has none."""
        found = {}
        for slot in sorted(slots):
            declaration = context.evidence.inputs.get(slot)
            if declaration is None:
                continue
            if declaration["kind"] in ("json", "trace"):
                try:
                    document = context.evidence.value(slot)
                except BlockFailure:
                    continue
                found[slot] = Places.of_value(declaration["kind"], document)
                continue
            key = (context.tenant.id, declaration["sha256"], declaration["format"])
            if key not in self._kept:
                try:
                    async with self._shelf.open(context.tenant, key[1], declaration["size_bytes"]) as path:
                        self._kept[key] = await inspect_file(path, key[2], timeout=_SECONDS)
                except BlockFailure:
                    continue
                if len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
            found[slot] = self._kept[key]
        return found
