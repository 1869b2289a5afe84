"""What the pages say of the code is what the code says: errors, commands, settings, operators, fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from engine.failure import ReasonKind
from store.caller import Role
from store.dispatches import DispatchFault
from store.settings import Settings
from tests.docs.fences import PAGES, ROOT, commands, fits
from tests.docs.fences import Block as Fence
from tests.docs.generated import COMMANDS, ERRORS, commands_page, errors_page
from workflows import contracts
from wyrd.cards.comparison import PARAMETERS, SCALAR_OPERATORS
from wyrd.cards.media import FORMATS
from wyrd.cards.rules.operator_rules import TEMPLATE_FIELDS

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def test_the_error_page_is_the_catalogue() -> None:
    assert ERRORS.read_text(encoding="utf-8") == errors_page(), "run: python -m tests.docs.generated"


def test_the_command_page_lists_every_command_and_option() -> None:
    assert COMMANDS.read_text(encoding="utf-8") == commands_page(), "run: python -m tests.docs.generated"


def test_the_settings_table_names_every_setting_with_its_default() -> None:
    table = text_of("docs/run-in-production.md").partition("<!-- settings -->\n")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    told = {cells[0].strip("`"): cells[1].strip("`") for cells in rows}
    found = {f"WYRD_{name.upper()}": _shown(field.default) for name, field in Settings.model_fields.items()}
    assert told == found
    assert all(cells[2] for cells in rows)


def _shown(default: Any) -> str:
    if default is None or default == ():
        return ""
    assert not isinstance(default, SecretStr)
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)


def test_the_author_page_lists_every_operator_and_format() -> None:
    page = text_of("docs/author-a-verifier.md")
    words = set(re.findall(r"`([a-z0-9_]+)`", page))
    assert (SCALAR_OPERATORS | PARAMETERS.keys()) - words == set()
    assert set(FORMATS) - words == set()
    for operator, wanted in PARAMETERS.items():
        row = next(line for line in page.splitlines() if f"`{operator}`" in line and line.startswith("|"))
        after = row.partition(f"`{operator}`")[2].partition("}")[0]
        assert all(name in after for name in wanted), operator


def test_the_result_page_lists_every_reason_kind() -> None:
    page = text_of("docs/read-a-result.md")
    told = page.partition("## Why something was not judged")[2].partition("\n## ")[0]
    assert {kind.value for kind in ReasonKind} - set(re.findall(r"`([a-z_]+)`", told)) == set()


def test_the_production_page_lists_every_role_queue_and_search_attribute() -> None:
    page = text_of("docs/run-in-production.md")
    names = {role.value for role in Role} | {contracts.QUEUE, *contracts.QUEUE_OF_KIND.values()}
    names.add(contracts.QUEUE_NOTIFY)
    names |= {attribute.name for attribute in contracts.SEARCH_ATTRIBUTES}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def test_the_operator_page_lists_every_field_and_every_fault_of_a_delivery() -> None:
    words = set(re.findall(r"`([a-z_]+)`", text_of("docs/operators.md")))
    assert (TEMPLATE_FIELDS | set(DispatchFault)) - words == set()


LIMITS: dict[str, bool] = {
    "* Agents with tools": (ROOT / "activities/tools").exists(),
    "* Source Cards": (ROOT / "activities/sources").exists(),
}
"""What the README says does not run, and a sign that it does by now."""


@pytest.mark.parametrize("claim", sorted(LIMITS))
def test_what_the_readme_says_is_missing_is_missing(claim: str) -> None:
    section = text_of("README.md").partition("## Not in this version")[2]
    assert (claim in section) is not LIMITS[claim], (
        f"{claim!r} has changed: correct the README and this table"
    )


def links() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for target in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
            if not target.startswith(("http://", "https://")):
                yield page, target


def test_every_link_between_pages_leads_somewhere() -> None:
    broken = [f"{page.relative_to(ROOT)}: {target}" for page, target in links() if not _leads(page, target)]
    assert broken == []


def _leads(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    place = (page.parent / path).resolve() if path else page
    if not anchor or place.is_dir():
        return place.exists()
    return place.exists() and anchor in {_anchor(title) for title in _headings(place)}


def _headings(page: Path) -> list[str]:
    return _HEADING.findall(_CODE.sub("", page.read_text(encoding="utf-8")))


def _anchor(title: str) -> str:
    """As the usual renderers make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def test_every_decision_names_the_alternative_that_lost() -> None:
    pages = sorted((ROOT / "docs/design").glob("*.md"))
    assert [page.name[:4] for page in pages] == [f"{number:04d}" for number in range(1, len(pages) + 1)]
    for page in pages:
        titles = _headings(page)
        assert any(title.startswith("What lost") for title in titles), page.name


def test_the_elision_stands_for_parts_of_lines_and_for_whole_lines() -> None:
    assert fits("id …\n…\nend", "id 1\na\nb\nend\n")
    assert fits("a\n…\nb", "a\nb\n")
    assert not fits("id …", "id 1\nmore")
    assert not fits("verdict: passed", "verdict: failed")


def test_a_command_goes_on_and_keeps_its_own_output() -> None:
    found = list(commands(Fence("page", 1, "console", "$ for x in 1\n> do y\none\n$ two\n")))
    assert [(one.text, one.output) for one in found] == [("for x in 1\ndo y", "one"), ("two", None)]
