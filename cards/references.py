"""From the references a spec was written with to the exact Cards it is stored with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from wyrd.cards import CardRef, Kind, Sibling, decode_spec
from wyrd.cards.envelope import Spec
from wyrd.cards.links import LinkAt, links
from wyrd.errors import Code, WyrdError

Identity = tuple[str, str, str, str]
"""Kind, space, name and exact version."""


def named_by(link: LinkAt) -> CardRef:
    """The Card a link of a submission names.

    Raises `WYRD_REGISTRY_400_UNRESOLVED_PATH_REF` for a path: the registry sees no files.
    """
    value = link.value
    if isinstance(value, str):
        raise WyrdError(
            Code.REGISTRY_400_UNRESOLVED_PATH_REF,
            f"{link.field} is the path {value[:200]!r}; the server sees no files",
            field=link.field,
        )
    return value.sibling if isinstance(value, Sibling) else value


def identity_of(ref: CardRef) -> Identity:
    return ref.kind, ref.space, ref.name, ref.version


def normal_form(spec: Spec) -> dict[str, Any]:
    """The spec without members that say what their absence says, so that equal Cards hash equally.

    The published clients send this form; other clients may write `tool_names: []` or
    `expected: null` out.
    """
    return spec.model_dump(mode="json", exclude_defaults=True)


def card_refs(kind: str, spec: Mapping[str, Any]) -> list[CardRef]:
    """Every Card that a stored spec names, each once, in the order of the document."""
    decoded = decode_spec(cast(Kind, kind), dict(spec))
    return list(dict.fromkeys(named_by(link) for link in links(decoded)))
