"""JSON Schema `format`: every standard format is enforced, in time linear in the text."""

from __future__ import annotations

from collections.abc import Callable

from jsonschema import Draft7Validator, Draft201909Validator, Draft202012Validator, FormatChecker

from wyrd.cards.regex import PatternRefused, compile_pattern

MAX_FORMATTED = 8192
"""Longest text, in characters, that any format takes; longer ones do not have it."""


def _email(text: str) -> bool:
    local, at, domain = text.rpartition("@")
    return bool(at and local and domain) and not any(character.isspace() for character in text)


def _regex(text: str) -> bool:
    try:
        compile_pattern(text)
    except PatternRefused:
        return False
    return True


def _as_uri(text: str) -> str:
    """An IRI as the URI it stands for (RFC 3987, 3.1)."""
    return "".join(
        character if character.isascii() else "".join(f"%{byte:02X}" for byte in character.encode("utf-8"))
        for character in text
    )


_URI = Draft202012Validator.FORMAT_CHECKER.checkers["uri"][0]
_URI_REFERENCE = Draft202012Validator.FORMAT_CHECKER.checkers["uri-reference"][0]


_OURS: dict[str, Callable[[str], bool]] = {
    # The library asks for an @ somewhere, compiles with the backtracking `re`, and parses IRIs
    # with a general grammar that takes a second to load, at about a millisecond a character.
    "email": _email,
    "idn-email": _email,
    "regex": _regex,
    "iri": lambda text: bool(_URI(_as_uri(text))),
    "iri-reference": lambda text: bool(_URI_REFERENCE(_as_uri(text))),
}


def _bounded(check: Callable[[object], bool]) -> Callable[[object], bool]:
    def bounded(instance: object) -> bool:
        return not isinstance(instance, str) or (len(instance) <= MAX_FORMATTED and bool(check(instance)))

    return bounded


def _checker(theirs: FormatChecker) -> FormatChecker:
    checker = FormatChecker(formats=())
    for name, (check, raises) in theirs.checkers.items():
        if name not in _OURS:
            checker.checks(name, raises=raises)(_bounded(check))
    for name, ours in _OURS.items():
        checker.checks(name)(_bounded(_on_text(ours)))
    return checker


def _on_text(check: Callable[[str], bool]) -> Callable[[object], bool]:
    return lambda instance: isinstance(instance, str) and check(instance)


FORMATS: dict[str, FormatChecker] = {
    "Draft202012Validator": _checker(Draft202012Validator.FORMAT_CHECKER),
    "Draft201909Validator": _checker(Draft201909Validator.FORMAT_CHECKER),
    "Draft7Validator": _checker(Draft7Validator.FORMAT_CHECKER),
}
"""The format checker of each dialect, by its validator's name."""
