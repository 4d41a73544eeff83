"""The division of ranges into tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.source.offset_ranges import Division, TaskRange, divided

PARTITIONS = [TopicPartition("t", index) for index in range(3)]


def ranges(*ends: int) -> list[TaskRange]:
    return [TaskRange(partition, 0, end, True) for partition, end in zip(PARTITIONS, ends, strict=False)]


def spans(found: list[TaskRange]) -> list[tuple[int, int, int]]:
    return [(each.partition.partition, each.start, each.end) for each in found]


def test_empty_ranges_are_left_out() -> None:
    assert spans(divided(ranges(5, 0, 7), Division())) == [(0, 0, 5), (2, 0, 7)]


def test_a_small_range_stays_whole_while_a_large_one_is_divided() -> None:
    found = divided(ranges(100, 10), Division(4))
    assert spans(found) == [(0, 0, 33), (0, 33, 66), (0, 66, 100), (1, 0, 10)]
    assert [each.is_earliest for each in found] == [True, False, False, True]


def test_no_range_has_more_than_the_maximum() -> None:
    assert spans(divided(ranges(10, 3), Division(None, 4))) == [(0, 0, 3), (0, 3, 6), (0, 6, 10), (1, 0, 3)]


def test_a_division_applies_only_if_it_asks_for_more_or_smaller_ranges() -> None:
    assert [Division(*each).applies(ranges(10, 3)) for each in ((), (2,), (3,), (None, 10), (None, 9))] == [
        False,
        False,
        True,
        False,
        True,
    ]


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=3),
    st.none() | st.integers(1, 50),
    st.none() | st.integers(1, 300),
)
def test_a_division_keeps_every_offset_once(ends: list[int], count: int | None, records_max: int | None) -> None:
    found = divided(ranges(*ends), Division(count, records_max))
    offsets = [(each.partition, offset) for each in found for offset in range(each.start, each.end)]
    assert offsets == [(part, offset) for part, end in zip(PARTITIONS, ends, strict=False) for offset in range(end)]
    assert all(each.size for each in found)
    if records_max is not None:
        assert all(each.size <= records_max for each in found)
