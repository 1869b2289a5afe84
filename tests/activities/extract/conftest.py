from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from activities.extract import ExtractedFile, check_format, extract_file, inspect_file
from engine.citations import Places
from engine.failure import BlockFailure, ReasonKind

GENEROUS = 60.0


class Files:
    """Writes bytes to files of their own and reads them as the product does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()

    def write(self, data: bytes) -> Path:
        path = self._folder / f"file-{next(self._numbers)}"
        path.write_bytes(data)
        return path

    async def extract(self, data: bytes, format: str) -> ExtractedFile:
        return await extract_file(self.write(data), format, timeout=GENEROUS)

    async def output(self, data: bytes, format: str) -> dict[str, Any]:
        return (await self.extract(data, format)).output

    async def places(self, data: bytes, format: str) -> Places:
        return await inspect_file(self.write(data), format, timeout=GENEROUS)

    async def check(self, data: bytes, format: str) -> None:
        await check_format(self.write(data), format, timeout=GENEROUS)

    async def refusal(self, data: bytes, format: str) -> str:
        """The one reason with which extraction refuses the bytes as unreadable."""
        return await _refused(self.extract(data, format), ReasonKind.EVIDENCE_UNREADABLE)

    async def limit(self, data: bytes, format: str) -> str:
        """The one reason with which extraction refuses the bytes as over a limit."""
        return await _refused(self.extract(data, format), ReasonKind.LIMIT_EXCEEDED)

    async def check_refusal(self, data: bytes, format: str) -> str:
        return await _refused(self.check(data, format), ReasonKind.EVIDENCE_UNREADABLE)


async def _refused(work: Awaitable[object], kind: ReasonKind) -> str:
    with pytest.raises(BlockFailure) as refusal:
        await work
    assert refusal.value.kind is kind, refusal.value.reason
    assert not refusal.value.retryable
    return refusal.value.reason


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture(scope="session")
def samples() -> Callable[[str], bytes]:
    from tests.activities.extract import documents

    made: dict[str, bytes] = {}

    def sample(format: str) -> bytes:
        if format not in made:
            made[format] = documents.sample(format)
        return made[format]

    return sample
