"""The list of Cards: filters, ranges, pages, cursors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cards.filter import compile_filter
from cards.listing import CardQuery, card_page
from store.caller import Tenant
from tests.cards_registry.conftest import Registry, prompt_spec, service, submission, verifier
from wyrd.errors import WyrdError
from wyrd.wire.cards import CardPage

VERSIONS = ("1.0.0", "1.2.0", "1.10.0", "2.0.0-rc.1", "2.0.0")


@pytest.fixture
async def stocked(registry: Registry) -> Registry:
    """Five versions of one Verifier, a Prompt in another space, and a Service, one Card of each status."""
    for version in VERSIONS:
        await registry.declare(verifier(version=version))
    await registry.declare(submission("Prompt", "support-prompt", prompt_spec(), space="other-space"))
    desk = await registry.declare(verifier("other-check"), service(verifiers=["other-check"]))
    await registry.set_active(desk.root.uid, False)
    gone = await registry.declare(verifier("gone-check"))
    await registry.delete(gone.root.uid)
    await registry.declare(submission("Artifact", "late-files", {"artifact_kind": "x"}, files={"a": b"a"}))
    return registry


async def page(
    registry: Registry, limit: int | None = None, cursor: str | None = None, **query: Any
) -> CardPage:
    return await registry.read(card_page, CardQuery(**query), limit, cursor)


async def found(registry: Registry, **query: Any) -> list[str]:
    return [f"{item.name}@{item.version}" for item in (await page(registry, **query)).items]


async def refused(registry: Registry, **query: Any) -> WyrdError:
    with pytest.raises(WyrdError) as caught:
        await page(registry, **query)
    return caught.value


async def test_a_list_is_in_order_of_kind_space_name_and_semver(stocked: Registry) -> None:
    assert await found(stocked) == [
        "late-files@1.0.0",
        "support-prompt@1.0.0",
        "support-desk@1.0.0",
        "no-promise@1.0.0",
        "no-promise@1.2.0",
        "no-promise@1.10.0",
        "no-promise@2.0.0",
        "other-check@1.0.0",
    ]


async def test_each_filter_narrows_the_list(stocked: Registry) -> None:
    assert await found(stocked, kind="Service") == ["support-desk@1.0.0"]
    assert await found(stocked, space="other-space") == ["support-prompt@1.0.0"]
    assert await found(stocked, name="other-check") == ["other-check@1.0.0"]
    assert await found(stocked, status="deprecated") == ["support-desk@1.0.0"]
    assert await found(stocked, status="deleted") == ["gone-check@1.0.0"]
    assert await found(stocked, status="pending") == ["late-files@1.0.0"]
    assert await found(stocked, status="expired") == []
    assert await found(stocked, name="no-promise", version_range="^1.2") == [
        "no-promise@1.2.0",
        "no-promise@1.10.0",
    ]
    assert "no-promise@2.0.0-rc.1" in await found(stocked, include_prerelease=True)
    assert await found(stocked, version_range="2.0.0-rc.1", include_prerelease=True) == [
        "no-promise@2.0.0-rc.1"
    ]


LANGUAGE: list[tuple[str, list[str]]] = [
    ('name = "support-desk"', ["support-desk@1.0.0"]),
    ('name >= "support" and not kind = "Prompt"', ["support-desk@1.0.0"]),
    ('name = "SUPPORT-DESK"', []),
    ('name = "no-promise" and version > "1.2.0"', ["no-promise@1.10.0", "no-promise@2.0.0"]),
    ('version >= "2.0.0"', ["no-promise@2.0.0"]),
    ('version = "2.0.0"', ["no-promise@2.0.0"]),
    ('(status = "deprecated" or kind = "Prompt")', ["support-prompt@1.0.0", "support-desk@1.0.0"]),
    ('kind in ["Prompt", "Service"] AND space != "support"', ["support-prompt@1.0.0"]),
    ('kind NOT IN ["Verifier", "Artifact"] and space = "support"', ["support-desk@1.0.0"]),
    ("artifact_hash exists", ["late-files@1.0.0"]),
    ('kind = "Prompt" and not artifact_hash = "x"', ["support-prompt@1.0.0"]),
    ('kind = "Prompt" and artifact_hash != "x"', ["support-prompt@1.0.0"]),
    ('created_at > "2999-01-01T00:00:00Z"', []),
    (r'name = "it\"s"', []),
    ('name = "x" or name = "support-desk" and kind = "Service"', ["support-desk@1.0.0"]),
]


async def test_the_filter_language(stocked: Registry) -> None:
    answered = [(text, await found(stocked, filter=text)) for text, _ in LANGUAGE]
    assert answered == LANGUAGE


TAGS: list[tuple[str, list[str]]] = [
    ('labels.team = "support"', ["one-check"]),
    ('labels.team != "support"', ["other-check", "plain-check"]),
    ('not labels.team = "support"', ["other-check", "plain-check"]),
    ('labels.team in ["support", "care"]', ["one-check", "other-check"]),
    ("labels.team exists", ["one-check", "other-check"]),
    ("not labels.team exists", ["plain-check"]),
    ('labels.team < "d"', ["other-check"]),
    ('labels.example.com/tier = "gold"', ["one-check"]),
    (r'annotations.note = "n\u00e4her\n"', ["one-check"]),
    ("annotations.odd exists", ["plain-check"]),
    ('annotations.odd = "x"', []),
]


async def test_labels_and_annotations_are_fields_of_a_filter(registry: Registry) -> None:
    labels = {"team": "support", "example.com/tier": "gold"}
    await registry.declare(verifier("one-check", labels=labels, annotations={"note": "näher\n"}))
    await registry.declare(verifier("other-check", labels={"team": "care"}))
    await registry.declare(verifier("plain-check", annotations={"odd": "a\0b"}))
    answered = [
        (text, [name.partition("@")[0] for name in await found(registry, filter=text)]) for text, _ in TAGS
    ]
    assert answered == TAGS


async def test_times_in_filters_compare_as_instants(stocked: Registry) -> None:
    first = (await page(stocked, kind="Prompt")).items[0]
    same = first.created_at.isoformat()
    assert await found(stocked, kind="Prompt", filter=f'created_at = "{same}"') == ["support-prompt@1.0.0"]
    assert await found(stocked, kind="Prompt", filter=f'created_at < "{same}"') == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('colour = "red"', "WYRD_QUERY_400_INVALID_FIELD"),
        ('attributes.x = "red"', "WYRD_QUERY_400_INVALID_FIELD"),
        ("", "WYRD_QUERY_400_INVALID_SYNTAX"),
        ("name", "WYRD_QUERY_400_INVALID_SYNTAX"),
        ("name = ", "WYRD_QUERY_400_INVALID_SYNTAX"),
        ("name = support", "WYRD_QUERY_400_INVALID_SYNTAX"),
        ("name = 'support'", "WYRD_QUERY_400_INVALID_SYNTAX"),
        ("name = 1", "WYRD_QUERY_400_INVALID_SYNTAX"),
        ("name = null", "WYRD_QUERY_400_INVALID_SYNTAX"),
        ('name = "a" name = "b"', "WYRD_QUERY_400_INVALID_SYNTAX"),
        ('(name = "a"', "WYRD_QUERY_400_INVALID_SYNTAX"),
        ('name = "a', "WYRD_QUERY_400_INVALID_SYNTAX"),
        ('name = "a"; DROP TABLE cards', "WYRD_QUERY_400_INVALID_SYNTAX"),
        (r'name = "\u0000"', "WYRD_QUERY_400_INVALID_SYNTAX"),
        (r'name = "\x"', "WYRD_QUERY_400_INVALID_SYNTAX"),
        ('and = "a"', "WYRD_QUERY_400_INVALID_SYNTAX"),
        ('version > "1"', "WYRD_QUERY_400_INVALID_SYNTAX"),
        ('created_at > "yesterday"', "WYRD_QUERY_400_INVALID_SYNTAX"),
        ('created_at > "2026-01-01T00:00:00"', "WYRD_QUERY_400_INVALID_SYNTAX"),
        ("name in []", "WYRD_QUERY_400_INVALID_SYNTAX"),
        ('name not = "a"', "WYRD_QUERY_400_INVALID_SYNTAX"),
        ('labels.a"b = "c"', "WYRD_QUERY_400_INVALID_SYNTAX"),
        (" or ".join(['name = "a"'] * 80), "WYRD_QUERY_400_TOO_COMPLEX"),
        ("name in [" + ", ".join(['"a"'] * 80) + "]", "WYRD_QUERY_400_TOO_COMPLEX"),
        ("(" * 30 + 'name = "a"' + ")" * 30, "WYRD_QUERY_400_TOO_COMPLEX"),
        ("not " * 30 + 'name = "a"', "WYRD_QUERY_400_TOO_COMPLEX"),
        ("x" * 3000, "WYRD_QUERY_400_TOO_COMPLEX"),
    ],
)
def test_a_filter_that_cannot_be_read_is_refused(text: str, code: str) -> None:
    with pytest.raises(WyrdError) as caught:
        compile_filter(text)
    assert caught.value.code == code
    assert caught.value.details["field"] == "filter"


WORDS = [
    "name",
    "version",
    "labels.a",
    "in",
    "and",
    "or",
    "not",
    "exists",
    "=",
    "<",
    "(",
    ")",
    "[",
    "]",
    '"b"',
]


@given(st.text(max_size=60) | st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))
def test_no_text_crashes_the_reader_of_filters(text: str) -> None:
    try:
        compile_filter(text)
    except WyrdError as error:
        code = error.code
    else:
        code = "WYRD_QUERY_400_"
    assert code.startswith("WYRD_QUERY_400_")


async def test_values_of_a_filter_are_bound_and_never_become_sql(stocked: Registry) -> None:
    for text in ("' or 1=1 --", "x') or 1=1 --", "%", "$.labels"):
        assert await found(stocked, filter=f'name = "{text}" or labels.team = "{text}"') == []


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"limit": 0}, "WYRD_REGISTRY_400_LIST_LIMIT_OUT_OF_RANGE"),
        ({"limit": 1001}, "WYRD_REGISTRY_400_LIST_LIMIT_OUT_OF_RANGE"),
        ({"kind": "Verifiers"}, "WYRD_QUERY_400_INVALID_FIELD"),
        ({"space": "No"}, "WYRD_QUERY_400_INVALID_FIELD"),
        ({"name": "a\0b"}, "WYRD_QUERY_400_INVALID_FIELD"),
        ({"status": "gone"}, "WYRD_QUERY_400_INVALID_FIELD"),
        ({"version_range": "newest"}, "WYRD_QUERY_400_INVALID_SYNTAX"),
        ({"cursor": "nonsense!"}, "WYRD_REGISTRY_400_CURSOR_MISMATCH"),
        ({"cursor": "bnVsbA"}, "WYRD_REGISTRY_400_CURSOR_MISMATCH"),
    ],
)
async def test_a_query_out_of_bounds_is_refused(registry: Registry, query: dict[str, Any], code: str) -> None:
    assert (await refused(registry, **query)).code == code


async def test_pages_hold_every_card_once_and_in_order(stocked: Registry) -> None:
    whole = [item.card_uid for item in (await page(stocked)).items]
    for limit in (1, 3, 8, 1000):
        seen: list[str] = []
        cursor: str | None = None
        while not seen or cursor is not None:
            one = await page(stocked, limit, cursor)
            assert len(one.items) <= limit
            seen.extend(item.card_uid for item in one.items)
            cursor = one.next_cursor
        assert seen == whole


async def test_a_cursor_belongs_to_its_query_and_its_tenant(stocked: Registry, other_tenant: Tenant) -> None:
    cursor = (await page(stocked, 2)).next_cursor
    assert cursor is not None
    for registry, query in (
        (stocked, {"kind": "Verifier"}),
        (stocked, {"include_prerelease": True}),
        (stocked.of(other_tenant), {}),
    ):
        with pytest.raises(WyrdError) as caught:
            await page(registry, 2, cursor, **query)
        assert caught.value.code == "WYRD_REGISTRY_400_CURSOR_MISMATCH"


async def test_a_card_bound_caller_lists_its_graph(stocked: Registry) -> None:
    desk = (await page(stocked, kind="Service")).items[0]
    assert await found(stocked.bound_to(desk.card_uid)) == ["support-desk@1.0.0", "other-check@1.0.0"]


async def test_p58_another_tenant_lists_nothing(stocked: Registry, other_tenant: Tenant) -> None:
    rival = stocked.of(other_tenant)
    assert await found(rival, include_prerelease=True) == []
    assert await found(rival, status="deleted") == []
    assert await found(rival, filter='name != "x" or name = "support-desk"') == []
    assert len(await found(stocked)) == 8
