"""The ranges of queries, and the records that are lost between two micro-batches."""

from __future__ import annotations

import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.source.errors import InvalidOption
from pykbroker.pipeline.source.offset_limits import EARLIEST, EveryPartition, EveryTimestamp, SpecificOffsets
from pykbroker.pipeline.source.offset_ranges import Division, TaskRange
from pykbroker.pipeline.source.planning import batch_ranges, micro_batch, new_partitions, require_order

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_batch_query_has_a_range_for_each_partition_even_if_it_is_empty() -> None:
    starting = SpecificOffsets({A: EARLIEST, B: 7})
    found = batch_ranges(starting, {A: 3, B: 7}, {A: 9, B: 7}, Division())
    assert found == [TaskRange(A, 3, 9, True), TaskRange(B, 7, 7, False)]


def test_a_query_may_start_at_its_end_but_not_behind_it() -> None:
    require_order({A: 3, B: 7}, {A: 4, B: 7})
    with pytest.raises(InvalidOption, match="Beginning offset 8 is after the ending offset 7 for topic t partition 1"):
        require_order({A: 3, B: 8}, {A: 4, B: 7})


def test_a_query_from_a_time_on_does_not_start_at_the_start_of_the_log() -> None:
    (found,) = batch_ranges(EveryTimestamp(5, False), {A: 0}, {A: 9}, Division())
    assert not found.is_earliest
    (found,) = batch_ranges(EveryPartition(EARLIEST), {A: 0}, {A: 9}, Division())
    assert found.is_earliest


def test_a_micro_batch_begins_where_the_last_one_ended() -> None:
    assert micro_batch({A: 3, B: 4}, {A: 9, B: 4}, {}, Division()) == ([TaskRange(A, 3, 9)], [])


def test_a_new_partition_is_read_from_its_start() -> None:
    assert new_partitions({A: 3}, {A: 3, B: 5}) == [B]
    assert micro_batch({A: 3}, {A: 3, B: 5}, {B: 0}, Division()) == ([TaskRange(B, 0, 5)], [])


def test_records_that_are_lost_have_a_reason() -> None:
    gone = micro_batch({A: 3}, {A: 3, B: 5}, {}, Division())
    assert gone == ([], ["Cannot find initial offsets for partitions [t-1]. They may have been deleted."])
    late = micro_batch({A: 3}, {A: 3, B: 5}, {B: 2}, Division())
    assert late == ([TaskRange(B, 2, 5)], ["Added partition t-1 starts from 2 instead of 0."])
    deleted = micro_batch({A: 3, B: 5}, {A: 4}, {}, Division())
    assert deleted == ([TaskRange(A, 3, 4)], ["Partitions [t-1] have been deleted."])
    shrunk = micro_batch({A: 3}, {A: 1}, {}, Division())
    assert shrunk == ([], ["Partition t-0 offset was changed from 3 to 1."])
