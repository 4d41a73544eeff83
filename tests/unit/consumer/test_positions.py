"""Positions: seeks, resets, pauses, look-ups, and positions in a log that was truncated."""

from __future__ import annotations

import pytest
import trio

from pykbroker.core.consumer.errors import (
    ConsumerTimeout,
    LogTruncation,
    NoOffsetForPartition,
    OffsetsOutOfRange,
    SubscriptionConflict,
)
from pykbroker.core.topic_partition import TopicPartition
from tests.unit.consumer.conftest import GROUP, TIME_MS, Consuming, values_of
from wire.api import ApiKey

PATIENCE_S = 10


async def test_a_seek_drops_the_records_that_were_fetched(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"a", b"b", b"c", b"d")
    partition = consuming.partitions[0]
    async with consuming.consumer("topic", max_poll_records=1) as consumer:
        assert await values_of(consumer, 1) == [b"a"]
        consumer.seek(partition, 3)
        assert await values_of(consumer, 1) == [b"d"]
        consumer.seek(partition, 1)
        assert await values_of(consumer, 2) == [b"b", b"c"]


async def test_a_seek_during_an_iteration_drops_its_records(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"a", b"b", b"c", b"d")
    async with consuming.consumer("topic") as consumer:
        assert (await anext(consumer)).value == b"a"
        consumer.seek(consuming.partitions[0], 3)
        assert (await anext(consumer)).value == b"d"


async def test_seeks_to_the_beginning_and_the_end(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"a", b"b")
    partition = consuming.partitions[0]
    async with consuming.consumer("topic") as consumer:
        assert await values_of(consumer, 2) == [b"a", b"b"]
        consumer.seek_to_beginning([partition])
        assert await consumer.position(partition) == 0
        consumer.seek_to_end()
        assert [await consumer.position(each) for each in consuming.partitions] == [2, 0, 0]
        consuming.append(b"c")
        assert await values_of(consumer, 1) == [b"c"]


async def test_a_position_is_that_of_the_next_record_that_the_user_gets(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"a", b"b", b"c")
    partition = consuming.partitions[0]
    async with consuming.consumer("topic") as consumer:
        await anext(consumer)
        assert await consumer.position(partition) == 1
        await anext(consumer)
        assert await consumer.position(partition) == 2


async def test_a_position_that_stays_unknown_is_a_time_out(autojump_clock, consuming: Consuming) -> None:
    partition = consuming.partitions[0]
    consuming.state.move_leader(partition, -1)
    async with consuming.consumer(default_api_timeout_ms=2000) as consumer:
        consumer.assign([partition])
        with pytest.raises(ConsumerTimeout, match="default_api_timeout_ms=2000"):
            await consumer.position(partition)
        assert consuming.elapsed() == pytest.approx(2, abs=0.1)


async def test_paused_partitions_return_nothing_and_keep_their_records(autojump_clock, consuming: Consuming) -> None:
    for index in range(2):
        consuming.append(b"%d" % index, partition=index)
    first, second, _ = consuming.partitions
    async with consuming.consumer(max_poll_records=1) as consumer:
        consumer.assign(consuming.partitions)
        consumer.pause([first])
        assert await values_of(consumer, 1) == [b"1"]
        assert await consumer.poll(5) == []
        consumer.pause([second])
        consuming.append(b"2", partition=1)
        assert await consumer.poll(5) == []
        consumer.resume([first, second])
        assert sorted(await values_of(consumer, 2), key=str) == [b"0", b"2"]


async def test_a_pause_during_an_iteration_holds_the_records_back(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"a", b"b")
    async with consuming.consumer("topic") as consumer:
        assert (await anext(consumer)).value == b"a"
        consumer.pause(consuming.partitions)
        assert await consumer.poll(5) == []
        consumer.resume(consuming.partitions)
        assert (await anext(consumer)).value == b"b"


async def test_partitions_that_are_not_assigned_are_refused(autojump_clock, consuming: Consuming) -> None:
    async with consuming.consumer() as consumer:
        consumer.assign(consuming.partitions[:1])
        for call in (consumer.pause, consumer.resume, consumer.seek_to_beginning, consumer.seek_to_end):
            with pytest.raises(SubscriptionConflict, match="topic-1"):
                call([consuming.partitions[1]])
        with pytest.raises(SubscriptionConflict, match="topic-1"):
            consumer.seek(consuming.partitions[1], 0)
        with pytest.raises(SubscriptionConflict, match="topic-1"):
            await consumer.position(consuming.partitions[1])
        with pytest.raises(ValueError, match="the offset -1 is negative"):
            consumer.seek(consuming.partitions[0], -1)


# ---- look-ups


async def test_offsets_for_times(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"a", b"b", b"c")
    first, second, _ = consuming.partitions
    async with consuming.consumer() as consumer:
        found = await consumer.offsets_for_times({first: TIME_MS + 1, second: TIME_MS})
        after = await consumer.offsets_for_times({first: TIME_MS + 3})
    assert found[first] is not None
    assert (found[first].offset, found[first].timestamp, found[second]) == (1, TIME_MS + 1, None)
    assert after == {first: None}


async def test_the_first_and_the_end_offsets(autojump_clock, consuming: Consuming) -> None:
    for value in (b"a", b"b", b"c"):
        consuming.append(value)
    consuming.state.log(consuming.partitions[0]).delete_before(1)
    async with consuming.consumer() as consumer:
        assert await consumer.beginning_offsets(consuming.partitions[:2]) == dict(
            zip(consuming.partitions, (1, 0), strict=False)
        )
        assert await consumer.end_offsets(consuming.partitions[:1]) == {consuming.partitions[0]: 3}


async def test_topics_and_their_partitions(autojump_clock, consuming: Consuming) -> None:
    consuming.state.add_topic("other")
    async with consuming.consumer(allow_auto_create_topics=False) as consumer:
        assert await consumer.topics() == {"topic", "other"}
        assert await consumer.partitions_for("topic") == [0, 1, 2]
        assert await consumer.partitions_for("unknown") == []


async def test_a_look_up_of_an_unknown_topic_is_a_time_out(autojump_clock, consuming: Consuming) -> None:
    async with consuming.consumer(default_api_timeout_ms=1500) as consumer:
        with pytest.raises(ConsumerTimeout):
            await consumer.end_offsets([TopicPartition("unknown", 0)])


# ---- truncated logs (KIP-320)


def truncate(consuming: Consuming) -> TopicPartition:
    """Elect another leader, whose log lacks the last record and has another in its place."""
    partition = consuming.partitions[0]
    consuming.state.log(partition).truncate(1)
    consuming.state.move_leader(partition, 2)
    consuming.append(b"B", b"C")
    return partition


async def test_a_position_in_a_truncated_log_is_reset(autojump_clock, consuming: Consuming) -> None:
    for value in (b"a", b"b"):
        consuming.append(value)
    async with consuming.consumer("topic") as consumer:
        assert await values_of(consumer, 2) == [b"a", b"b"]
        truncate(consuming)
        assert await values_of(consumer, 2) == [b"B", b"C"]
        assert consuming.cluster.requests_of(ApiKey.OFFSET_FOR_LEADER_EPOCH)


async def test_without_a_reset_policy_a_truncated_log_is_an_error(autojump_clock, consuming: Consuming) -> None:
    for value in (b"a", b"b"):
        consuming.append(value)
    async with consuming.consumer(auto_offset_reset="none") as consumer:
        consumer.assign(consuming.partitions[:1])
        consumer.seek(consuming.partitions[0], 0)
        assert await values_of(consumer, 2) == [b"a", b"b"]
        partition = truncate(consuming)
        with pytest.raises(LogTruncation) as raised:
            await values_of(consumer, 1)
        assert (raised.value.offsets, raised.value.divergent[partition].offset) == ({partition: 2}, 1)
        consumer.seek(partition, 1)
        assert await values_of(consumer, 2) == [b"B", b"C"]


async def test_a_seek_with_a_leader_epoch_notices_a_truncated_log(autojump_clock, consuming: Consuming) -> None:
    for value in (b"a", b"b"):
        consuming.append(value)
    partition = truncate(consuming)
    async with consuming.consumer(auto_offset_reset="none") as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 2, leader_epoch=0)
        with pytest.raises(LogTruncation):
            await values_of(consumer, 1)


# ---- topics that are deleted and created again


@pytest.mark.parametrize("way", ["subscribe", "group", "assign"])
async def test_a_position_in_a_topic_that_was_created_again_is_reset(
    autojump_clock, consuming: Consuming, way: str
) -> None:
    consuming.append(b"a", b"b", b"c")
    partition = consuming.partitions[0]
    group = {"group_id": GROUP, "enable_auto_commit": False} if way == "group" else {}
    async with consuming.consumer(*([] if way == "assign" else ["topic"]), **group) as consumer:
        if way == "assign":
            consumer.assign([partition])
        with trio.fail_after(PATIENCE_S):
            assert await values_of(consumer, 3) == [b"a", b"b", b"c"]
            consuming.state.recreate_topic("topic")
            consuming.append(b"A", b"B", b"C", b"D", b"E")
            assert await values_of(consumer, 5) == [b"A", b"B", b"C", b"D", b"E"]
            assert await consumer.position(partition) == 5


async def test_without_a_reset_policy_a_topic_that_was_created_again_is_an_error(
    autojump_clock, consuming: Consuming
) -> None:
    consuming.append(b"a", b"b", b"c")
    partition = consuming.partitions[0]
    async with consuming.consumer(auto_offset_reset="none") as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 0)
        with trio.fail_after(PATIENCE_S):
            assert await values_of(consumer, 3) == [b"a", b"b", b"c"]
            consuming.state.recreate_topic("topic")
            consuming.append(b"A", b"B", b"C", b"D", b"E")
            with pytest.raises(OffsetsOutOfRange, match="deleted and created again: topic-0 at offset 3"):
                await values_of(consumer, 1)
            with pytest.raises(NoOffsetForPartition, match="topic-0"):
                await values_of(consumer, 1)
            consumer.seek(partition, 1)
            assert await values_of(consumer, 4) == [b"B", b"C", b"D", b"E"]
