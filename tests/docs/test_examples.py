"""Every example of the README and the pages does what it says, against one real stack."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import wyrd
from gateway.deployments import GatewayConfig
from tests.docs.fences import LANGUAGES, PAGES, ROOT, Block, blocks
from tests.docs.stack import PageRun, running
from wyrd import verify
from wyrd.cards import check

WITH_BLOCKS = [page for page in PAGES if any(True for _ in blocks(page))]

NOT_RUN = {
    "README.md": 3,
    "docs/drift.md": 2,
    "docs/operators.md": 1,
    "docs/read-with-another-engine.md": 1,
    "docs/run-in-production.md": 3,
    "docs/submit-from-another-process.md": 1,
}
"""How many blocks of a page cannot run here; each says above itself why."""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with running(tmp_path_factory.mktemp("stack") / "home") as found:
        yield found


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_example_does_what_its_page_shows(
    page: Path, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    run = PageRun(tmp_path, environment)
    run.prepare()
    before: Block | None = None
    for block in blocks(page):
        follows = before is not None and before.language == "python" and block.language == "text"
        if before is not None and before.language == "python" and not follows:
            assert not run.printed, f"{before.place} prints, and the page does not show it:\n{run.printed}"
        if block.why_not is not None:
            before = None
            continue
        if follows:
            run.prints(block)
        run.run(block)
        before = block
    if before is not None and before.language == "python":
        assert not run.printed, f"{before.place} prints, and the page does not show it:\n{run.printed}"


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_card_of_a_page_passes_the_check_unless_named_wrong(page: Path, tmp_path: Path) -> None:
    run = PageRun(tmp_path, {})
    run.prepare()
    written = [block for block in blocks(page) if block.file is not None]
    for block in written:
        run.run(block)
    for block in written:
        path = tmp_path / str(block.file)
        if path.name == "gateway.yaml":
            assert GatewayConfig.load(path).deployments
        elif "apiVersion:" in block.text:
            report = check(path)
            wrong = path.name.startswith("wrong-")
            assert report.ok is not wrong, f"{block.place}: {[str(one) for one in report.diagnostics]}"


def test_the_result_page_names_every_field_of_a_result(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    desk = wyrd.WyrdState.declare(ROOT / "examples/support_desk/support-desk.yaml")
    with desk.run("agent") as run:
        letter = verify.File(b"Dear Mr Crow,\n\n12 dollars\n", format="markdown")
        submitted = run.observe.submit("letter-follows-policy", letter=letter)
        assert isinstance(submitted, verify.Execution)
        code = run.observe.verify("ticket-complete", ticket={"answer": "We do."})
    fields: set[str] = set()
    for execution in (submitted, verify.Execution(code.execution_id)):
        execution.wait(60)
        fields |= set(_fields(execution.status()))
    page = (ROOT / "docs/read-a-result.md").read_text(encoding="utf-8").partition("## Fields")[2]
    assert len(fields) > 50
    assert fields - set(re.findall(r"[a-z0-9_]+", page)) == set()


_AUTHORED = ("check", "output", "value", "route", "locator", "usage")
"""Members whose inside is not the result's own: the Card's, the evidence's, the provider's."""


def _fields(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, member in value.items():
            if name == "letter" or name == "ticket":
                yield from _fields(member)
                continue
            yield name
            if name not in _AUTHORED:
                yield from _fields(member)
    elif isinstance(value, list):
        for item in value:
            yield from _fields(item)


def test_every_block_has_a_language_that_this_test_knows_what_to_do_with() -> None:
    strange = [block.place for page in PAGES for block in blocks(page) if block.language not in LANGUAGES]
    assert strange == []


def test_every_yaml_block_names_its_file() -> None:
    nameless = [
        block.place
        for page in PAGES
        for block in blocks(page)
        if block.language == "yaml" and block.file is None and block.why_not is None
    ]
    assert nameless == []


def test_blocks_that_are_not_run_are_counted() -> None:
    found = Counter(block.page for page in PAGES for block in blocks(page) if block.why_not is not None)
    assert dict(found) == NOT_RUN
