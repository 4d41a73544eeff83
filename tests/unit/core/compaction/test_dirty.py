"""Tests of the dirty section of a log: its ratio, when compaction is due, and which segments are merged."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pykbroker.core.compaction.dirty import (
    RELATIVE_OFFSET_MAX,
    DirtyRange,
    Sizes,
    below,
    dirty_range,
    first_dirty,
    groups,
)


@dataclass
class Part:
    base_offset: int
    next_offset: int
    size: int = 100


PARTS = [Part(0, 10), Part(10, 20), Part(20, 30)]


@pytest.mark.parametrize(
    ("cleaned", "start", "end", "expected"),
    [(0, 0, 9, 0), (5, 0, 9, 5), (9, 0, 9, 9), (10, 0, 9, 0), (4, 5, 9, 5), (5, 5, 9, 5)],
)
def test_a_cleaner_checkpoint_outside_of_the_log_is_ignored(cleaned, start, end, expected) -> None:
    assert first_dirty(cleaned, start, end) == expected


@pytest.mark.parametrize(("upper", "count"), [(9, 0), (10, 1), (19, 1), (20, 2), (30, 3), (99, 3)])
def test_only_sealed_segments_are_compacted(upper, count) -> None:
    assert below(PARTS, upper) == PARTS[:count]


def test_the_dirty_ratio_counts_only_compactable_bytes() -> None:
    assert dirty_range(PARTS, 10, is_overdue=False) == DirtyRange(10, 30, 100, 200)
    assert dirty_range(PARTS, 10, is_overdue=False).ratio == pytest.approx(2 / 3)
    assert dirty_range(PARTS, 30, is_overdue=False).ratio == 0
    assert dirty_range([], 7, is_overdue=False) == DirtyRange(7, 7, 0, 0)
    assert dirty_range([], 7, is_overdue=False).ratio == 0


@pytest.mark.parametrize(
    ("dirty", "is_overdue", "is_due"),
    [(49, False, False), (50, False, False), (51, False, True), (1, True, True), (0, True, False)],
)
def test_compaction_is_due_above_the_dirty_ratio_or_when_overdue(dirty, is_overdue, is_due) -> None:
    assert DirtyRange(0, 9, 100 - dirty, dirty, is_overdue).is_due(0.5) is is_due


@pytest.mark.parametrize(
    ("size_max", "index_max", "lengths"),
    [
        (300, 30, [3]),
        (299, 30, [2, 1]),
        (200, 30, [2, 1]),
        (199, 30, [1, 1, 1]),
        (1, 30, [1, 1, 1]),
        (300, 29, [2, 1]),
        (300, 19, [1, 1, 1]),
    ],
)
def test_segments_are_merged_into_groups_that_fit_one_segment(size_max, index_max, lengths) -> None:
    sizes = [Sizes(100, 10, 8)] * 3
    assert [len(group) for group in groups(PARTS, sizes, size_max, index_max)] == lengths
    swapped = [Sizes(one.log, one.time_index, one.offset_index) for one in sizes]
    assert [len(group) for group in groups(PARTS, swapped, size_max, index_max)] == lengths


@pytest.mark.parametrize(("last", "count"), [(RELATIVE_OFFSET_MAX, 1), (RELATIVE_OFFSET_MAX + 1, 2)])
def test_merged_segments_span_only_offsets_that_the_index_can_store(last, count) -> None:
    parts = [Part(0, 10), Part(10, last + 1)]
    assert len(groups(parts, [Sizes(1, 1, 1)] * 2, 100, 100)) == count


def test_an_empty_segment_is_merged_regardless_of_its_offsets() -> None:
    parts = [Part(0, 10), Part(10, 2**32, 0), Part(2**32, 2**32 + 5)]
    assert groups(parts, [Sizes(1, 1, 1), Sizes(0, 0, 0), Sizes(1, 1, 1)], 100, 100) == [parts[:2], parts[2:]]
