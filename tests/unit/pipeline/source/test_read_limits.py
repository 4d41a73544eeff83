"""The limits of micro-batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.source.errors import InvalidOption
from pykbroker.pipeline.source.read_limits import (
    TriggerLimits,
    check_limits,
    duration_s,
    limited,
    offsets_between,
    refuse_limits,
)
from pykbroker.pipeline.source.read_options import stream_options

A, B, C = (TopicPartition("t", index) for index in range(3))
NEEDED = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "t"}


def test_a_limit_is_divided_in_proportion_and_starves_no_partition() -> None:
    begins, ends = {A: 0, B: 0, C: 7}, {A: 1000, B: 2, C: 7}
    assert limited(100, begins, ends) == {A: 99, B: 1, C: 7}
    assert limited(5000, begins, ends) == ends
    assert limited(10, ends, ends) == ends


def test_a_partition_that_shrank_or_has_no_start_keeps_its_end() -> None:
    """The plan of the micro-batch then reports what is lost."""
    assert limited(10, {A: 9, B: 0}, {A: 3, B: 100, C: 5}) == {A: 3, B: 10, C: 5}


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=3), st.integers(1, 500))
def test_limits_reach_the_ends_at_last(ranges: list[tuple[int, int]], offsets_max: int) -> None:
    position = {each: start for each, (start, _) in zip((A, B, C), ranges, strict=False)}
    ends = {each: start + size for each, (start, size) in zip((A, B, C), ranges, strict=False)}
    while position != ends:
        found = limited(offsets_max, position, ends)
        assert 0 < offsets_between(position, found) <= offsets_max + len(ranges)
        assert all(position[each] <= found[each] <= ends[each] for each in ends)
        position = found


def test_times_have_units() -> None:
    found = [duration_s("maxTriggerDelay", text) for text in ("500", "500ms", "30s", "15m", "15min", "2h", "1d")]
    assert found == [0.5, 0.5, 30, 900, 900, 7200, 86_400]
    with pytest.raises(InvalidOption, match="maxTriggerDelay=soon is not allowed: use a time such as 30s"):
        duration_s("maxTriggerDelay", "soon")


def test_limits_are_options_of_streams() -> None:
    given = {"maxoffsetspertrigger": "9", "minoffsetspertrigger": "5", "maxtriggerdelay": "3s"}
    assert stream_options({**NEEDED, **given}).limits == TriggerLimits(9, 5, 3)
    assert stream_options(NEEDED).limits == TriggerLimits(None, None, 900)
    with pytest.raises(InvalidOption, match=r"minOffsetPerTrigger\(5\) is higher than the maxOffsetsPerTrigger\(4\)"):
        check_limits(TriggerLimits(4, 5))


def test_a_limit_is_refused_where_spark_has_none() -> None:
    refuse_limits(NEEDED, "4.0.0")
    with pytest.raises(InvalidOption, match=r"maxTriggerDelay needs Spark 4.2: in Spark 4.0.0, a Python data source"):
        refuse_limits({**NEEDED, "maxtriggerdelay": "3s"}, "4.0.0")
