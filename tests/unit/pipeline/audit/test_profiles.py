"""The merging of the rows of an audit's measures."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.pipeline.audit.findings import KeyShare
from pykbroker.pipeline.audit.profiles import SUMS, key_curve, key_text, merged, strips, top_percent
from tests.unit.pipeline.audit.segment_rows import Record, segment_rows

times = st.one_of(st.none(), st.integers(1000, 1050))
records = st.lists(st.tuples(st.integers(0, 60), times).map(lambda each: Record(*each)), min_size=1, max_size=40)


@given(records)
def test_segments_of_any_size_merge_to_the_same_profile(rows: list[Record]) -> None:
    rows.sort(key=lambda row: row.offset)
    timed = [row.time_ms for row in rows]
    whole = merged(segment_rows(rows, 1000))
    if None not in timed:
        assert merged(segment_rows(rows, 7)) == whole
    for name in ("records", "missing_offsets", "gaps", "duplicates", "lateness_ms_max", "low_ms", "high_ms"):
        assert getattr(merged(segment_rows(rows, 7)), name) == getattr(whole, name)


def test_the_borders_of_segments_count() -> None:
    rows = [Record(0, 500), Record(1, 400), Record(9, 300), Record(11, 700)]
    found = merged(reversed(segment_rows(rows, 10)))
    assert (found.gaps, found.missing_offsets, found.steps_back, found.lateness_ms_max) == (2, 8, 2, 200)
    assert (found.first_offset, found.last_offset, found.low_ms, found.high_ms) == (0, 11, 300, 700)
    apart = merged(segment_rows([Record(8, 500), Record(12, 450)], 10))
    assert (apart.gaps, apart.missing_offsets, apart.steps_back, apart.lateness_ms_max) == (1, 3, 1, 50)
    assert {name: getattr(apart, name) for name in SUMS if name.endswith("_bytes")} == {
        "key_bytes": 2,
        "value_bytes": 6,
        "header_bytes": 0,
    }


@pytest.mark.parametrize(
    ("key", "key_bytes", "text"),
    [
        (b"", 0, ""),
        ("Zoë".encode(), 4, "Zoë"),
        ("Zoë".encode()[:3], 40, "Zo…"),
        (b"\x00\x01", 2, "0x0001"),
        (b"\xff\xfe", 90, "0xfffe…"),
        (b"a\nb", 3, "0x610a62"),
    ],
)
def test_a_key_is_shown_as_text_or_as_digits(key: bytes, key_bytes: int, text: str) -> None:
    assert key_text(key, key_bytes) == text


def test_the_most_frequent_hundredth_has_at_least_one_key() -> None:
    assert top_percent([]) == 0
    assert top_percent([(5, 3)]) == 5
    assert top_percent([(1, 190), (10, 9), (40, 1)]) == 50  # two keys of 200
    assert top_percent([(2, 300)]) == 6


def test_the_curve_of_keys_begins_at_nothing_and_ends_at_all() -> None:
    assert key_curve([]) == []
    assert key_curve([(1, 2), (4, 1)]) == [KeyShare(0, 0), KeyShare(1, 4), KeyShare(3, 6)]
    long = key_curve([(records, 1) for records in range(1, 5000)])
    assert len(long) < 202
    assert long[-1] == KeyShare(4999, 4999 * 5000 // 2)


def test_a_strip_has_the_counts_of_both_sides() -> None:
    place = {"topic": "t", "partition": 1, "start": 5, "width": 2}
    rows: list[dict[str, Any]] = [
        {**place, "side": "topic", "slot": 0, "records": 2},
        {**place, "side": "archive", "slot": 3, "records": 1},
    ]
    (found,) = strips(rows)
    assert (found.topic, found.partition, found.start, found.width) == ("t", 1, 5, 2)
    assert {side: counts[:5] for side, counts in found.counts.items()} == {
        "topic": [2, 0, 0, 0, 0],
        "archive": [0, 0, 0, 1, 0],
    }
