"""JSON data as YAML text. Apart from the rest, since loading the library takes its time."""

from __future__ import annotations

import re
from typing import Any

import yaml

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_/.-]*")
_NOT_TEXT = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


class _Dumper(yaml.SafeDumper):
    """Writes text in quotes unless every version of YAML reads it as text without them."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    plain = _PLAIN.fullmatch(text) is not None and text.lower() not in _NOT_TEXT
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def as_yaml(value: Any) -> bytes:
    """JSON data as YAML in which 1.1 and 1.2 readers see the same values."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)
    return text.encode("utf-8")
