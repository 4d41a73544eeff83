"""The offsets that a query reads for its filters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.source.narrowing import COMPARISONS, Condition, Narrowing

A, B, C = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("up", 0)


def narrowing(*conditions: tuple[str, str, Any]) -> Narrowing:
    return Narrowing(tuple(Condition(*each) for each in conditions))


class EqualTo(NamedTuple):
    """A filter of Spark 4.1."""

    attribute: tuple[str, ...]
    value: Any


class IsNotNull(NamedTuple):
    """A filter that narrows nothing."""

    attribute: tuple[str, ...]


def test_filters_that_narrow_nothing_are_left_out() -> None:
    found = Narrowing.of(
        [IsNotNull(("key",)), EqualTo(("partition",), 1), EqualTo(("a", "b"), 1), EqualTo(("x",), None)]
    )
    assert found == narrowing(("partition", "EqualTo", 1))


@pytest.mark.parametrize(
    ("conditions", "kept"),
    [
        ([("partition", "EqualTo", 0)], [A, C]),
        ([("topic", "In", ("t", "x")), ("partition", "GreaterThan", 0)], [B]),
        ([("topic", "StringStartsWith", "u")], [C]),
        ([("partition", "LessThanOrEqual", -1)], []),
        ([("value", "EqualTo", b"x"), ("offset", "EqualTo", 7)], [A, B, C]),
    ],
)
def test_partitions_without_records_for_a_filter_are_left_out(
    conditions: list[tuple[str, str, Any]], kept: list[TopicPartition]
) -> None:
    assert [each for each in (A, B, C) if narrowing(*conditions).keeps(each)] == kept


def test_a_range_is_cut_to_the_offsets_of_a_filter() -> None:
    found = narrowing(("offset", "GreaterThan", 4), ("offset", "LessThan", 7))
    assert found.ranges({A: 0, B: 6, C: 9}, {A: 10, B: 20, C: 12}) == ({A: 5, B: 6, C: 9}, {A: 7, B: 7, C: 9})
    assert narrowing(("offset", "EqualTo", 50)).ranges({A: 3}, {A: 9}) == ({A: 9}, {A: 9})


COMPARABLE = [name for name in COMPARISONS if name not in ("In", "StringStartsWith")]


@given(
    st.lists(st.tuples(st.just("offset"), st.sampled_from(COMPARABLE), st.integers(-5, 30)), max_size=3),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_no_offset_that_passes_is_cut(conditions: list[tuple[str, str, Any]], start: int, size: int) -> None:
    found = narrowing(*conditions)
    starts, ends = found.ranges({A: start}, {A: start + size})
    assert start <= starts[A] <= ends[A] <= start + size
    passing = [at for at in range(start, start + size) if all(each.holds(at) for each in found.conditions)]
    assert all(starts[A] <= offset < ends[A] for offset in passing)


def test_only_a_lower_bound_of_an_instant_moves_the_start() -> None:
    noon = datetime(2026, 1, 2, 12, tzinfo=UTC)
    assert narrowing(("timestamp", "GreaterThan", noon)).since_ms == 1_767_355_200_000
    assert narrowing(("timestamp", "LessThan", noon)).since_ms is None
    assert narrowing(("timestamp", "EqualTo", noon.replace(tzinfo=None))).since_ms is None
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert narrowing(("timestamp", "GreaterThan", epoch)).since_ms == 0
    assert narrowing(("timestamp", "GreaterThan", epoch - timedelta(milliseconds=1))).since_ms is None
