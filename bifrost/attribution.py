"""Who records: the principal behind a batch, and the request that brought it."""

from __future__ import annotations

from dataclasses import dataclass

from store.caller import Caller


@dataclass(frozen=True, slots=True)
class Attribution:
    """What every row of a batch is stamped with. `actor_id` is who acts on the principal's behalf."""

    principal_id: str
    request_id: str
    actor_id: str | None = None

    @classmethod
    def of(cls, caller: Caller, request_id: str) -> Attribution:
        return cls(caller.principal_id, request_id)
