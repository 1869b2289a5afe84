"""`{{ field }}` in an Operator's texts, filled in and escaped for the place it stands in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from wyrd.cards.rules.operator_rules import MAX_URL, TEMPLATE, template_fault

MAX_HEADER = 8192

Escape = Callable[[str], str]
_VISIBLE = "".join(chr(code) for code in range(32, 127) if chr(code) != "%")
_SLACK = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


class TemplateFault(ValueError):
    """The text cannot be filled in; the sentence says why."""


def plain(value: str) -> str:
    """In a JSON string, which its encoder escapes, nothing needs to be done."""
    return value


def for_slack(value: str) -> str:
    """Slack reads `<!channel>` and links between angle brackets."""
    return "".join(_SLACK.get(char, char) for char in value)


def for_url(value: str) -> str:
    """One path segment, or one value of a query."""
    return quote(value, safe="")


def for_header(value: str) -> str:
    """Visible ASCII and spaces stay; line ends and all else are percent-encoded."""
    return quote(value, safe=_VISIBLE)


def filled(text: str, fields: Mapping[str, str], escape: Escape) -> str:
    """The text with every field's value in its place. Raises `TemplateFault`."""
    why = template_fault(text)
    if why is not None:
        raise TemplateFault(why)
    return TEMPLATE.sub(lambda found: escape(fields[found.group(1).strip()]), text)


def filled_url(text: str, fields: Mapping[str, str]) -> str:
    """A URL. A value that would walk up the path is refused: no escape keeps `..` from meaning that."""
    url = filled(text, fields, for_url)
    if "{{" in text:
        path = url.partition("?")[0].partition("://")[2].partition("/")[2]
        if any(segment in (".", "..") for segment in path.split("/")):
            raise TemplateFault("a field's value makes a path segment of dots alone")
    if len(url) > MAX_URL:
        raise TemplateFault(f"the URL is longer than {MAX_URL} characters")
    return url


def filled_header(text: str, fields: Mapping[str, str]) -> str:
    """The value of a header, in ASCII: authored characters beyond it are percent-encoded too."""
    literal = quote(text, safe=_VISIBLE + "%")
    value = filled(literal, fields, for_header).strip()
    if len(value) > MAX_HEADER:
        raise TemplateFault(f"the header is longer than {MAX_HEADER} characters")
    return value


def filled_leaves(value: Any, fields: Mapping[str, str]) -> Any:
    """A JSON value with every string in it filled in; names of members stand as they are."""
    if isinstance(value, str):
        return filled(value, fields, plain)
    if isinstance(value, list):
        return [filled_leaves(item, fields) for item in value]
    if isinstance(value, dict):
        return {name: filled_leaves(item, fields) for name, item in value.items()}
    return value
