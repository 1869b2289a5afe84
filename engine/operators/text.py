"""Operators over strings. Comparison is by code point: no white space, case or look-alike is folded
unless the operator's name says so."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any

from engine.failure import ReasonKind
from engine.operators.rule import STRING, Build, OperandFault, Rule, Undecided, negated, number, operand
from engine.values import show
from wyrd.cards.regex import PatternRefused, compile_pattern
from wyrd.wire.canonical import JsonFault, JsonRefused, strict_loads

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.+", re.DOTALL)
_HYPHENATED = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_UUID = re.compile(
    rf"[0-9a-f]{{32}}|{_HYPHENATED}|urn:uuid:{_HYPHENATED}|\{{{_HYPHENATED}\}}", re.IGNORECASE | re.ASCII
)
_LONGEST_ADDRESS = 45


def _compared(fact: Callable[[str, str], bool], yes: str, no: str) -> Build:
    def build(parameters: Mapping[str, Any], expected: Any) -> Rule:
        needle: str = operand(expected, STRING)
        shown = show(needle)
        return Rule(STRING, lambda observed: fact(observed, needle), f"{yes} {shown}", f"{no} {shown}")

    return build


def _contains_ignore_case(parameters: Mapping[str, Any], expected: Any) -> Rule:
    needle: str = operand(expected, STRING)
    folded, shown = needle.casefold(), show(needle)
    return Rule(
        STRING,
        lambda observed: folded in observed.casefold(),
        f"contains {shown} in some letter case",
        f"does not contain {shown} in any letter case",
    )


def _matches_regex(parameters: Mapping[str, Any], expected: Any) -> Rule:
    pattern = parameters["pattern"]
    try:
        compiled = compile_pattern(pattern)
    except PatternRefused as refused:
        raise OperandFault(f"has a pattern that cannot be used: {refused}") from None
    shown = show(pattern)
    return Rule(STRING, compiled.search, f"matches {shown}", f"does not match {shown}")


def is_email(text: str) -> bool:
    local, at, domain = text.partition("@")
    return bool(at and local and "." in domain) and not any(character.isspace() for character in text)


def is_url(text: str) -> bool:
    return _URL.fullmatch(text) is not None


def is_uuid(text: str) -> bool:
    return _UUID.fullmatch(text) is not None


def is_ipv4(text: str) -> bool:
    return _is_address(ipaddress.IPv4Address, text)


def is_ipv6(text: str) -> bool:
    # A zone (fe80::1%eth0) names an interface of one machine and is no part of the address.
    return "%" not in text and _is_address(ipaddress.IPv6Address, text)


def _is_address(family: Callable[[str], object], text: str) -> bool:
    if len(text) > _LONGEST_ADDRESS:
        return False
    try:
        family(text)
    except ValueError:
        return False
    return True


def is_json(text: str) -> bool:
    try:
        strict_loads(text)
    except JsonRefused as refused:
        if refused.fault is JsonFault.LIMIT:
            raise Undecided(f"cannot read that text: {refused.reason}", ReasonKind.LIMIT_EXCEEDED) from None
        return False
    return True


def _shaped(fact: Callable[[str], bool], what: str) -> Build:
    rule = Rule(STRING, fact, f"is {what}", f"is not {what}")
    return lambda parameters, expected: rule


def _has_min_length(parameters: Mapping[str, Any], expected: Any) -> Rule:
    least = number(parameters, "min")
    return Rule(
        STRING,
        lambda observed: bool(len(observed) >= least),
        f"has at least {show(least)} characters",
        f"has fewer than {show(least)} characters",
    )


def _has_max_length(parameters: Mapping[str, Any], expected: Any) -> Rule:
    most = number(parameters, "max")
    return Rule(
        STRING,
        lambda observed: bool(len(observed) <= most),
        f"has at most {show(most)} characters",
        f"has more than {show(most)} characters",
    )


_contains = _compared(lambda text, needle: needle in text, "contains", "does not contain")

OPERATORS: dict[str, Build] = {
    "contains": _contains,
    "not_contains": negated(_contains),
    "contains_ignore_case": _contains_ignore_case,
    "starts_with": _compared(str.startswith, "starts with", "does not start with"),
    "ends_with": _compared(str.endswith, "ends with", "does not end with"),
    "matches_regex": _matches_regex,
    "not_matches_regex": negated(_matches_regex),
    "is_email": _shaped(is_email, "an e-mail address"),
    "is_url": _shaped(is_url, "a URL"),
    "is_uuid": _shaped(is_uuid, "a UUID"),
    "is_ipv4": _shaped(is_ipv4, "an IPv4 address"),
    "is_ipv6": _shaped(is_ipv6, "an IPv6 address"),
    "is_json": _shaped(is_json, "JSON"),
    "has_min_length": _has_min_length,
    "has_max_length": _has_max_length,
}
