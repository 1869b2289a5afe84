"""UUIDv7s: of the right form, rising, and never the same in a forked child."""

from __future__ import annotations

import os
import uuid

from wyrd.wire.ids import is_uuid7, uuid7


def test_ids_are_uuid7_and_rise_within_a_process() -> None:
    made = [uuid7() for _ in range(5000)]
    assert all(is_uuid7(one) and uuid.UUID(one).variant == uuid.RFC_4122 for one in made)
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_a_forked_child_makes_other_ids_than_its_parent() -> None:
    uuid7()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, "".join(uuid7()[-17:] for _ in range(50)).encode("ascii"))
        os._exit(0)
    os.waitpid(child, 0)
    text = os.read(reading, 100_000).decode("ascii")
    os.close(reading)
    os.close(writing)
    theirs = {text[at : at + 17] for at in range(0, len(text), 17)}
    assert len(theirs) == 50
    assert not theirs & {uuid7()[-17:] for _ in range(500)}


def test_what_is_no_uuid7_is_told_apart() -> None:
    assert not is_uuid7(str(uuid.uuid4()))
    assert not is_uuid7("")
    assert not is_uuid7("0" * 36)
    assert not is_uuid7(uuid7().replace("-", ""))
