"""Targets that this process resolved a moment ago: the price of a look-up paid once a second."""

import time
from collections import OrderedDict
from dataclasses import dataclass

from activities.bundle import Bundle, Bundles
from cards.targets import Target, resolve_target
from store.caller import Caller
from store.database import Database

_KEPT = 1024


@dataclass(frozen=True)
class Bound:
    """A resolved target with its Verifier ready to run."""

    target: Target
    bundle: Bundle


class Targets:
    """What `cards.targets.resolve_target` found, trusted for `seconds`.

    A deactivated binding or a deleted Card is noticed by every process within that time.
    """

    def __init__(self, database: Database, bundles: Bundles, seconds: float) -> None:
        self._database = database
        self._bundles = bundles
        self._seconds = seconds
        self._kept: OrderedDict[tuple[str, str, str, str | None], tuple[float, Bound]] = OrderedDict()

    async def resolve(self, caller: Caller, verifier_uid: str, subject_uid: str) -> Bound:
        """Raises what `resolve_target` raises."""
        key = (caller.tenant.id, verifier_uid, subject_uid, caller.card_uid)
        kept = self._kept.get(key)
        now = time.monotonic()
        if kept is not None and kept[0] > now:
            return kept[1]
        target = await self._database.read(
            resolve_target, caller.tenant, verifier_uid, subject_uid, caller.card_uid
        )
        bound = Bound(target, await self._bundles.of(caller.tenant, verifier_uid))
        self._kept[key] = (now + self._seconds, bound)
        self._kept.move_to_end(key)
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return bound
