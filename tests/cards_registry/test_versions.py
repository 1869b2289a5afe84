"""SemVer: order, bumps, scopes and ranges."""

from __future__ import annotations

import contextlib
from functools import cmp_to_key

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cards.ranges import VersionRange
from cards.versions import Bump, Scope, Version, next_version
from wyrd.cards.identifiers import is_exact_version
from wyrd.errors import WyrdError

numbers = st.integers(0, 2**64 - 1) | st.integers(0, 3)
identifiers = st.one_of(
    st.integers(0, 10**12).map(str),
    st.from_regex(r"[0-9A-Za-z-]{0,4}[A-Za-z-][0-9A-Za-z-]{0,4}", fullmatch=True),
)
pre_releases = st.just("") | st.lists(identifiers, min_size=1, max_size=4).map(".".join)
builds = st.just("") | st.from_regex(r"[0-9A-Za-z-]{1,5}(\.[0-9A-Za-z-]{1,5}){0,2}", fullmatch=True)
versions = st.builds(Version, numbers, numbers, numbers, pre_releases, builds)


def compared(left: Version, right: Version) -> int:
    """SemVer 2.0 section 11, written out from its text and from nothing of ours."""
    numbers = (left.major, left.minor, left.patch), (right.major, right.minor, right.patch)
    if numbers[0] != numbers[1]:
        return -1 if numbers[0] < numbers[1] else 1
    if not left.pre or not right.pre:
        return (not left.pre) - (not right.pre)
    mine, theirs = left.pre.split("."), right.pre.split(".")
    for one, other in zip(mine, theirs, strict=False):
        if one == other:
            continue
        if one.isdigit() and other.isdigit():
            return -1 if int(one) < int(other) else 1
        if one.isdigit() != other.isdigit():
            return -1 if one.isdigit() else 1
        return -1 if one < other else 1
    return (len(mine) > len(theirs)) - (len(mine) < len(theirs))


@given(versions, versions)
def test_the_stored_order_is_semver_precedence(left: Version, right: Version) -> None:
    mine, theirs = left.precedence.encode(), right.precedence.encode()
    assert (mine > theirs) - (mine < theirs) == compared(left, right)


def test_the_example_of_the_semver_text_sorts_as_it_says() -> None:
    said = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2"]
    said += ["1.0.0-beta.11", "1.0.0-rc.1", "1.0.0"]
    read = [version_of(text) for text in said]
    assert sorted(read, key=lambda version: version.precedence) == read
    assert sorted(read, key=cmp_to_key(compared)) == read


@given(versions)
def test_a_version_reads_back_as_it_was_written(version: Version) -> None:
    assert Version.parse(str(version)) == version
    assert is_exact_version(str(version))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1.0",
        "v1.0.0",
        "1.0.0.0",
        "01.0.0",
        "1.0.0-",
        "1.0.0-01",
        "1.0.0+",
        "1.0.0-a..b",
        "1.0.0\n",
        "18446744073709551616.0.0",
        "1.0.0-" + "a" * 260,
        "١.0.0",
    ],
)
def test_what_is_no_version_is_not_read_as_one(text: str) -> None:
    assert Version.parse(text) is None
    assert not is_exact_version(text)


@given(
    versions.filter(lambda version: max(version.major, version.minor, version.patch) < 2**64 - 1),
    st.sampled_from(["major", "minor", "patch", "pre", "pre_build"]),
    identifiers,
)
def test_every_bump_but_build_makes_a_higher_version(version: Version, part: str, pre: str) -> None:
    bump = Bump(part, pre=pre if part.startswith("pre") else "", build="b" if part == "pre_build" else "")
    made = next_version(bump, Scope(), version)
    assert compared(made, version) == 1
    assert bool(made.pre) == part.startswith("pre")


@pytest.mark.parametrize(
    ("bump", "before", "after"),
    [
        (Bump("major"), "1.2.3", "2.0.0"),
        (Bump("minor"), "1.2.3", "1.3.0"),
        (Bump("patch"), "1.2.3", "1.2.4"),
        (Bump("patch"), "1.2.3-rc.1", "1.2.3"),
        (Bump("minor"), "1.3.0-rc.1", "1.3.0"),
        (Bump("minor"), "1.3.1-rc.1", "1.4.0"),
        (Bump("major"), "2.0.0-rc.1", "2.0.0"),
        (Bump("major"), "2.1.0-rc.1", "3.0.0"),
        (Bump("patch"), "1.2.3+built", "1.2.4"),
        (Bump("pre", pre="rc"), "1.2.3", "1.2.4-rc.1"),
        (Bump("pre", pre="rc"), "1.2.4-rc.1", "1.2.4-rc.2"),
        (Bump("pre", pre="rc"), "1.2.4-beta.9", "1.2.4-rc.1"),
        (Bump("pre", pre="beta"), "1.2.4-rc.1", "1.2.5-beta.1"),
        (Bump("build", build="sha.1"), "1.2.3", "1.2.3+sha.1"),
        (Bump("pre_build", pre="rc", build="sha"), "1.2.3", "1.2.4-rc.1+sha"),
    ],
)
def test_bumps_go_where_people_expect(bump: Bump, before: str, after: str) -> None:
    assert str(next_version(bump, Scope(), version_of(before))) == after


@pytest.mark.parametrize(
    ("bump", "scope", "first"),
    [
        (Bump("patch"), None, "0.1.0"),
        (Bump("minor"), None, "0.1.0"),
        (Bump("major"), None, "1.0.0"),
        (Bump("pre", pre="rc"), None, "0.1.0-rc.1"),
        (Bump("build", build="sha"), None, "0.1.0+sha"),
        (Bump("patch"), "2", "2.0.0"),
        (Bump("patch"), "2.3", "2.3.0"),
    ],
)
def test_the_first_version_of_a_name(bump: Bump, scope: str | None, first: str) -> None:
    read = Scope.parse(scope)
    assert read is not None
    assert str(next_version(bump, read, None)) == first


@pytest.mark.parametrize(
    ("bump", "scope", "before"),
    [("major", "1", "1.2.3"), ("minor", "1.2", "1.2.3"), ("patch", None, f"1.2.{2**64 - 1}")],
)
def test_a_bump_that_leaves_its_scope_or_64_bits_is_refused(
    bump: str, scope: str | None, before: str
) -> None:
    read = Scope.parse(scope)
    assert read is not None
    with pytest.raises(WyrdError) as refused:
        next_version(Bump(bump), read, version_of(before))
    assert refused.value.code == "WYRD_REGISTRY_400_INVALID_VERSION_BLOCK"


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("^1.2.3", ["1.2.3", "1.99.0"], ["1.2.2", "2.0.0", "2.0.0-rc.1"]),
        ("^0.2.3", ["0.2.3", "0.2.9"], ["0.3.0", "0.2.2"]),
        ("^0.0.3", ["0.0.3"], ["0.0.4", "0.1.0"]),
        ("~1.2.3", ["1.2.3", "1.2.9"], ["1.3.0", "1.3.0-rc.1"]),
        ("~1", ["1.0.0", "1.9.9"], ["2.0.0"]),
        ("^1", ["1.0.0", "1.9.9"], ["2.0.0", "0.9.0"]),
        ("^0", ["0.0.1", "0.9.9"], ["1.0.0"]),
        (">=1.0 <2", ["1.0.0", "1.9.9"], ["0.9.9", "2.0.0", "2.0.0-rc.1"]),
        (">=1.0.0, <2.0.0", ["1.0.0", "2.0.0-rc.1"], ["2.0.0"]),
        (">1.2", ["1.3.0"], ["1.2.9"]),
        ("<=1.2", ["1.2.9"], ["1.3.0"]),
        ("1.x", ["1.0.0", "1.9.9"], ["2.0.0"]),
        ("1.2.*", ["1.2.0", "1.2.9"], ["1.3.0"]),
        ("*", ["0.0.1", "9.9.9"], []),
        ("1.2.3", ["1.2.3", "1.2.3+build"], ["1.2.4"]),
        ("=1.2.3-rc.1", ["1.2.3-rc.1"], ["1.2.3"]),
        ("1.x || 3.0.0", ["1.5.0", "3.0.0"], ["2.0.0", "3.0.1"]),
        ("> 1.0.0", ["1.0.1"], ["1.0.0"]),
    ],
)
def test_ranges_hold_what_they_say(text: str, inside: list[str], outside: list[str]) -> None:
    read = VersionRange.parse(text)
    assert [one for one in inside if not read.holds(version_of(one))] == []
    assert [one for one in outside if read.holds(version_of(one))] == []


@pytest.mark.parametrize(
    "text", ["", " ", "latest", "1.2.3.4", "^", ">=", "1 ||", "01", "1.x.2", "<*", "=>1", "1..2", "x" * 300]
)
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(WyrdError) as refused:
        VersionRange.parse(text)
    assert refused.value.code.startswith("WYRD_QUERY_400_")
    assert refused.value.details["field"] == "version_range"


@given(st.text(max_size=40))
def test_no_text_crashes_the_reader_of_ranges(text: str) -> None:
    with contextlib.suppress(WyrdError):
        VersionRange.parse(text)


def version_of(text: str) -> Version:
    version = Version.parse(text)
    assert version is not None
    return version
