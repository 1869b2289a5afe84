"""Which files are merged: few are left, none larger than asked, and no row is rewritten all the time."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from bifrost.files import LiveFile
from bifrost.scribe.compaction import MAX_TARGET_BYTES, TARGET_BYTES, merges, target_of

TARGET = 64 * 1024**2
GROWING = 100

_sizes = st.integers(1, 2 * TARGET)
_files = st.lists(st.tuples(st.integers(98, 101), _sizes), max_size=60).map(
    lambda found: [LiveFile(f"{index}", part, size, size) for index, (part, size) in enumerate(found)]
)


def _merged(files: list[LiveFile]) -> list[LiveFile]:
    made = 0
    while groups := merges(files, TARGET, GROWING):
        for group in groups:
            made += 1
            files = [file for file in files if file not in group]
            size = sum(file.bytes for file in group)
            files.append(LiveFile(f"merged-{made}-{len(files)}", group[0].partition, size, size))
    return files


@given(_files)
def test_merging_ends_with_few_small_files_and_every_byte(files: list[LiveFile]) -> None:
    left = _merged(files)
    for partition in range(98, 102):
        before = [file.bytes for file in files if file.partition == partition]
        after = [file.bytes for file in left if file.partition == partition]
        assert sum(before) == sum(after)
        assert max(after, default=0) <= max(TARGET, *before, 0)
        small = [size for size in after if size < TARGET]
        if partition >= GROWING:
            assert len(small) < 50
        else:
            assert all(one + other > TARGET for one, other in itertools.pairwise(small))


@given(_files)
def test_a_group_is_of_one_partition_fits_the_target_and_holds_no_file_twice(files: list[LiveFile]) -> None:
    groups = merges(files, TARGET, GROWING)
    for group in groups:
        assert len(group) > 1
        assert len({file.partition for file in group}) == 1
        assert sum(file.bytes for file in group) <= TARGET
    everything = [file.location for group in groups for file in group]
    assert len(everything) == len(set(everything))


def test_a_thousand_publications_of_a_day_leave_fewer_than_fifty_files_and_rewrite_little() -> None:
    files: list[LiveFile] = []
    rewritten, size, most = 0, 200 * 1024, 0
    for number in range(1000):
        files.append(LiveFile(f"{number}", GROWING, size, 1))
        while groups := merges(files, TARGET, GROWING):
            group = groups[0]
            files = [file for file in files if file not in group]
            files.append(LiveFile(f"m{number}-{len(files)}", GROWING, sum(one.bytes for one in group), 1))
            rewritten += files[-1].bytes
        most = max(most, len(files))
    assert most < 50
    assert rewritten < 6 * 1000 * size


def test_the_target_is_the_tables_own_within_what_memory_allows() -> None:
    assert (target_of(None), target_of(2**20), target_of(2**30)) == (TARGET_BYTES, 2**20, MAX_TARGET_BYTES)
