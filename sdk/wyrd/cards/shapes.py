"""What every model of the Card language shares: strictness, tagged unions, structured faults.

A validation fault keeps two paths: the whole way to the place, and the shorter one that the
published validator names, which ends at the first tagged container. Union tags therefore enter
pydantic's locations with a mark that no Card can contain by accident.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Discriminator
from pydantic_core import PydanticCustomError

TAG = "\0"
"""First character of every union tag inside a pydantic location."""


class Strict(BaseModel):
    """A mapping whose unknown members are refused."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        serialize_by_alias=True,
        allow_inf_nan=False,
        defer_build=True,
    )


class Lenient(BaseModel):
    """A mapping whose unknown members are ignored, as the published validator does."""

    model_config = ConfigDict(
        strict=True,
        extra="ignore",
        frozen=True,
        serialize_by_alias=True,
        allow_inf_nan=False,
        defer_build=True,
    )


class Open(BaseModel):
    """A mapping whose unknown members are kept as they are."""

    model_config = ConfigDict(
        strict=True,
        extra="allow",
        frozen=True,
        serialize_by_alias=True,
        allow_inf_nan=False,
        defer_build=True,
    )


def tagged(member: str) -> Discriminator:
    """Choose the union's branch by the string under `member`; the mark keeps tags apart from fields."""

    def chosen(value: Any) -> str | None:
        found = value.get(member) if isinstance(value, Mapping) else getattr(value, member, None)
        return TAG + found if isinstance(found, str) else None

    # pydantic repeats the function's name in the error; the decoder reads the member from it.
    chosen.__name__ = member
    return Discriminator(chosen)


def chosen_by(name: str, choose: Callable[[Any], str | None], *, by_member: bool = False) -> Discriminator:
    """Choose the union's branch by the value's own form; `by_member` says that `name` is a member."""

    def chosen(value: Any) -> str | None:
        found = choose(value)
        return None if found is None else TAG + found

    chosen.__name__ = name if by_member else TAG + name
    return Discriminator(chosen)


def fault(
    message: str,
    at: tuple[str | int, ...] = (),
    *,
    member: str | None = None,
    member_fault: str | None = None,
) -> PydanticCustomError:
    """One fault at a place below the value being validated."""
    return faults([(at, message, member, member_fault)])


def faults(
    found: list[tuple[tuple[str | int, ...], str, str | None, str | None]],
) -> PydanticCustomError:
    """Several faults at once: (place below the value, message, member, missing or unknown)."""
    # The message travels in the context, so that braces in it are never read as a template.
    return PydanticCustomError(
        "card_faults",
        "the value breaks a rule",
        {"faults": [{"at": list(at), "message": m, "member": n, "member_fault": k} for at, m, n, k in found]},
    )
