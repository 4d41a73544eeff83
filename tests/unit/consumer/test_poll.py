"""Polls: which records they return, when they wait, and how a user continues after an error."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from pykbroker.consumer import RecordNotDeserialized
from pykbroker.core.consumer.errors import ConsumerClosed, NoOffsetForPartition, OffsetsOutOfRange, UnreadableRecords
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.producer import Producer
from tests.unit.consumer.conftest import Consuming, values_of

PATIENCE_S = 10


async def test_a_poll_without_time_returns_at_once(autojump_clock, consuming: Consuming) -> None:
    async with consuming.consumer("topic") as consumer:
        assert await consumer.poll(0) == []
        assert consuming.elapsed() < 0.1


async def test_a_poll_waits_for_a_record(autojump_clock, consuming: Consuming, nursery: trio.Nursery) -> None:
    async def append_later() -> None:
        await trio.sleep(3)
        consuming.append(b"late")

    async with consuming.consumer("topic") as consumer:
        nursery.start_soon(append_later)
        assert await values_of(consumer, 1) == [b"late"]
        assert 3 <= consuming.elapsed() < 3.5


async def test_a_poll_ends_with_its_time_out(autojump_clock, consuming: Consuming) -> None:
    async with consuming.consumer("topic") as consumer:
        assert await consumer.poll(1) == []
        assert await consumer.poll(2) == []
        assert consuming.elapsed() == pytest.approx(3, abs=0.01)


@pytest.mark.parametrize("partitions", [1, 3])
async def test_a_poll_fetches_on_after_empty_responses(autojump_clock, consuming: Consuming, partitions: int) -> None:
    async with consuming.consumer() as consumer:
        consumer.assign(consuming.partitions[:partitions])
        assert await consumer.poll(PATIENCE_S) == []
        consuming.append(b"value")
        assert await values_of(consumer, 1) == [b"value"]


async def test_what_max_poll_records_leaves_is_in_the_next_polls(autojump_clock, consuming: Consuming) -> None:
    consuming.append(*(b"%d" % number for number in range(5)))
    async with consuming.consumer("topic", max_poll_records=2) as consumer:
        polls = [await consumer.poll(PATIENCE_S) for _ in range(3)]
    assert [[each.offset for each in records] for records in polls] == [[0, 1], [2, 3], [4]]


async def test_records_have_their_place_time_key_and_headers(autojump_clock, consuming: Consuming) -> None:
    servers = [f"{host}:{port}" for host, port in consuming.cluster.bootstrap]
    async with consuming.consumer("topic") as consumer:
        world = consumer._shell.world
        async with Producer(bootstrap_servers=servers, world=world) as producer:
            headers = [("name", b"1"), ("name", None)]
            await (await producer.send("topic", None, key=b"key", headers=headers, partition=2, timestamp=77))
        (record,) = await consumer.poll(PATIENCE_S)
    assert (record.topic, record.partition, record.offset, record.timestamp) == ("topic", 2, 0, 77)
    assert (record.key, record.value, list(record.headers)) == (b"key", None, headers)


async def test_one_by_one_all_records_arrive_in_order(autojump_clock, consuming: Consuming) -> None:
    for first in (0, 2, 4):
        consuming.append(b"%d" % first, b"%d" % (first + 1))
    found = []
    async with consuming.consumer("topic", max_poll_records=3) as consumer:
        async for record in consumer:
            found.append(record.value)
            if len(found) == 6:
                break
    assert found == [b"%d" % number for number in range(6)]


async def test_columns_are_whole_batches(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"a", b"b")
    consuming.append(b"c")
    async with consuming.consumer("topic") as consumer:
        first, second = await consumer.poll_columns(PATIENCE_S)
    assert (first.partition, first.offsets, first.values) == (consuming.partitions[0], [0, 1], [b"a", b"b"])
    assert (second.offsets, second.values, second.keys) == ([2], [b"c"], [None])


async def test_columns_continue_where_an_iteration_stopped(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"a", b"b", b"c")
    async with consuming.consumer("topic") as consumer:
        record = await anext(consumer)
        (columns,) = await consumer.poll_columns(PATIENCE_S)
    assert (record.value, columns.values) == (b"a", [b"b", b"c"])


async def test_a_poll_of_no_number_of_records_is_refused(autojump_clock, consuming: Consuming) -> None:
    async with consuming.consumer("topic") as consumer:
        for poll in (consumer.poll, consumer.poll_columns):
            for count in (0, -1):
                with pytest.raises(ValueError, match=f"records_max={count} must be at least 1"):
                    await poll(0, records_max=count)
            with pytest.raises(TypeError, match="records_max='1' must be an integer"):
                await poll(0, records_max="1")  # type: ignore[arg-type]


# ---- what cannot be returned


def integer(data: bytes) -> int:
    return int(data)


async def test_a_record_that_cannot_be_deserialized_is_raised_until_the_user_seeks_past_it(
    autojump_clock, consuming: Consuming
) -> None:
    good: list[Any] = [1]
    last: list[Any] = [3]
    consuming.append(b"1", b"two", b"3")
    async with consuming.consumer("topic", value_deserializer=integer) as consumer:
        assert await values_of(consumer, 1) == good
        for _ in range(2):
            with pytest.raises(RecordNotDeserialized) as raised:
                await consumer.poll(PATIENCE_S)
        assert (raised.value.offset, raised.value.partition) == (1, consuming.partitions[0])
        consumer.seek(raised.value.partition, raised.value.offset + 1)
        assert await values_of(consumer, 1) == last


def break_last_byte(data: Any) -> None:
    data.records = bytes(data.records[:-1]) + bytes([data.records[-1] ^ 1])


async def test_one_damaged_response_is_fetched_once_more(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"a", b"b")
    consuming.change_fetched(break_last_byte, times=1)
    async with consuming.consumer("topic") as consumer:
        assert await values_of(consumer, 2) == [b"a", b"b"]


async def test_a_damaged_batch_is_raised_once_in_a_backoff_until_the_user_seeks(
    autojump_clock, consuming: Consuming
) -> None:
    consuming.append(b"a", b"b")
    consuming.change_fetched(break_last_byte, times=4)
    async with consuming.consumer("topic", retry_backoff_ms=1000) as consumer:
        for _ in range(3):
            with pytest.raises(UnreadableRecords, match="seek past the record") as raised:
                await consumer.poll(PATIENCE_S)
            assert await consumer.position(consuming.partitions[0]) == raised.value.offset == 0
        assert consuming.elapsed() >= 2
        consumer.seek(raised.value.partition, 0)
        assert await values_of(consumer, 2) == [b"a", b"b"]


async def test_without_a_reset_policy_a_new_consumer_has_no_position(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"a", b"b")
    async with consuming.consumer("topic", auto_offset_reset="none") as consumer:
        with pytest.raises(NoOffsetForPartition) as raised:
            await consumer.poll(PATIENCE_S)
        assert raised.value.partitions == set(consuming.partitions)
        for partition in consuming.partitions:
            consumer.seek(partition, 1 if partition.partition == 0 else 0)
        assert await values_of(consumer, 1) == [b"b"]


@pytest.mark.parametrize(("reset", "expected"), [("earliest", b"c"), ("latest", b"new")])
async def test_a_bad_offset_is_reset(autojump_clock, consuming: Consuming, reset: str, expected: bytes) -> None:
    for value in (b"a", b"b", b"c"):
        consuming.append(value)
    consuming.state.log(consuming.partitions[0]).delete_before(2)
    async with consuming.consumer(auto_offset_reset=reset) as consumer:
        consumer.assign(consuming.partitions[:1])
        consumer.seek(consuming.partitions[0], 0)
        if reset == "latest":
            assert await consumer.poll(1) == []
            consuming.append(b"new")
        assert await values_of(consumer, 1) == [expected]


async def test_a_bad_offset_is_raised_without_a_reset_policy(autojump_clock, consuming: Consuming) -> None:
    partition = consuming.partitions[0]
    consuming.append(b"a")
    async with consuming.consumer(auto_offset_reset="none") as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 5)
        with pytest.raises(OffsetsOutOfRange) as raised:
            await consumer.poll(PATIENCE_S)
        assert raised.value.offsets == {partition: 5}
        consumer.seek(partition, 0)
        assert await values_of(consumer, 1) == [b"a"]


# ---- what is left out


@pytest.mark.parametrize(
    ("isolation", "expected"),
    [("read_committed", [b"good", b"plain"]), ("read_uncommitted", [b"bad", b"good", b"plain"])],
)
async def test_read_committed_leaves_out_aborted_records(
    autojump_clock, consuming: Consuming, isolation: str, expected: list[bytes]
) -> None:
    consuming.append(b"bad", producer_id=7)
    consuming.end_transaction(7, commit=False)
    consuming.append(b"good", producer_id=8)
    consuming.end_transaction(8, commit=True)
    consuming.append(b"plain")
    async with consuming.consumer("topic", isolation_level=isolation) as consumer:
        assert await values_of(consumer, len(expected)) == expected
        assert await consumer.position(consuming.partitions[0]) == 5


async def test_read_committed_waits_for_the_end_of_a_transaction(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"open", producer_id=7)
    async with consuming.consumer("topic", isolation_level="read_committed") as consumer:
        assert await consumer.poll(5) == []
        consuming.end_transaction(7, commit=True)
        assert await values_of(consumer, 1) == [b"open"]


async def test_a_position_moves_over_offsets_that_compaction_has_removed(autojump_clock, consuming: Consuming) -> None:
    log = consuming.state.log(consuming.partitions[0])
    consuming.append(b"a")
    log.end_offset += 10
    consuming.append(b"b")
    async with consuming.consumer("topic") as consumer:
        assert await values_of(consumer, 2) == [b"a", b"b"]
        assert await consumer.position(consuming.partitions[0]) == 12


async def test_a_topic_may_be_created_after_the_subscription(autojump_clock, consuming: Consuming) -> None:
    async with consuming.consumer("late", metadata_max_age_ms=1000) as consumer:
        assert await consumer.poll(2) == []
        consuming.state.add_topic("late")
        consuming.partitions[0] = TopicPartition("late", 0)
        consuming.append(b"value")
        assert await values_of(consumer, 1) == [b"value"]


@pytest.mark.parametrize("topic", [5, None, b"topic"])
async def test_a_topic_that_is_no_text_is_refused_and_changes_nothing(
    autojump_clock, consuming: Consuming, topic: Any
) -> None:
    consuming.append(b"a")
    async with consuming.consumer() as consumer:
        for refused in (
            lambda: consumer.subscribe(["topic", topic]),
            lambda: consumer.assign([TopicPartition(topic, 0)]),
        ):
            with pytest.raises(TypeError, match="pass its name as str"):
                refused()
        consumer.assign(consuming.partitions)
        assert await values_of(consumer, 1) == [b"a"]


async def test_a_closed_consumer_returns_and_commits_nothing(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"a", b"b", b"c")
    async with consuming.member() as consumer:
        assert (await anext(consumer)).value == b"a"
    calls = (consumer.poll, consumer.poll_columns, consumer.commit, lambda: anext(consumer))
    for call in (*calls, lambda: consumer.committed(consuming.partitions), lambda: consumer.end_offsets([])):
        with pytest.raises(ConsumerClosed):
            await call()
