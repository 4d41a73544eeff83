"""The consumer for trio against this broker and against three nodes of Apache Kafka."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import trio

from pykbroker.consumer import CommittedOffset, Consumer, ConsumerRecord, FetchedColumns
from pykbroker.core.consumer.errors import NoOffsetForPartition
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.producer import Producer
from tests.interop.target import LOST_SESSION_MS, PARTITIONS, Target

pytestmark = pytest.mark.timeout(120)
RECORDS = 2000
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])
TIME_MS = 1_700_000_000_000


def new_group() -> str:
    """Return a group id that no other test has."""
    return f"group-{uuid.uuid4().hex[:8]}"


async def fill(target: Target, topic: str, numbers: range, **settings: Any) -> None:
    """Send records with keys, headers, values and timestamps that their number determines."""
    async with Producer(bootstrap_servers=target.servers, **settings) as producer:
        for number in numbers:
            headers = [("number", b"%d" % number)] if number % 5 == 0 else []
            await producer.send(
                topic,
                b"value %d" % number,
                b"key %d" % (number % 50),
                partition=number % PARTITIONS,
                headers=headers,
                timestamp=TIME_MS + number,
            )


def consumer(target: Target, *topics: str, **settings: Any) -> Consumer:
    quick: dict[str, Any] = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}
    if settings.get("group_protocol") != "consumer":
        quick |= {"heartbeat_interval_ms": 200, "session_timeout_ms": LOST_SESSION_MS}
    return Consumer(*topics, bootstrap_servers=target.servers, **quick | settings)


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """Poll until `count` records are there."""
    found: list[ConsumerRecord] = []
    while len(found) < count:
        found += await consumer.poll()
    return found


async def poll_until(consumers: list[Consumer], condition: Callable[[], bool]) -> list[ConsumerRecord]:
    """Poll all consumers at the same time until a condition holds."""
    found: list[ConsumerRecord] = []

    async def poll(each: Consumer) -> None:
        while not condition():
            found.extend(await each.poll(0.05))

    async with trio.open_nursery() as nursery:
        for each in consumers:
            nursery.start_soon(poll, each)
    return found


def numbers(records: list[ConsumerRecord]) -> list[int]:
    """Return the sorted numbers of records."""
    return sorted(int((record.value or b"").split()[1]) for record in records)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_arrive_once_and_in_the_order_of_their_partitions(target: Target, codec: str) -> None:
    topic = target.topic()

    async def main() -> list[ConsumerRecord]:
        await fill(target, topic, range(RECORDS), compression_type=codec)
        async with consumer(target, topic) as each:
            return await read(each, RECORDS)

    found = trio.run(main)
    assert numbers(found) == list(range(RECORDS))
    last = Counter[int]()
    for record in found:
        number = int((record.value or b"").split()[1])
        assert record.offset == last[record.partition]
        last[record.partition] += 1
        assert (record.topic, record.partition, record.key) == (topic, number % 3, b"key %d" % (number % 50))
        assert (record.timestamp, record.timestamp_type) == (TIME_MS + number, 0)
        assert list(record.headers) == ([("number", b"%d" % number)] if number % 5 == 0 else [])


def test_an_iteration_and_columns_have_the_same_records_as_polls(target: Target) -> None:
    topic = target.topic()

    async def main() -> None:
        await fill(target, topic, range(100))
        async with consumer(target, topic) as each:
            polled = await read(each, 100)
        async with consumer(target, topic) as each:
            iterated = []
            async for record in each:
                iterated.append(record)
                if len(iterated) == 100:
                    break
        async with consumer(target, topic) as each:
            columns: list[FetchedColumns] = []
            while sum(map(len, columns)) < 100:
                columns += await each.poll_columns()
        assert sorted(iterated, key=str) == sorted(polled, key=str)
        assert sorted((record for part in columns for record in part.records()), key=str) == sorted(polled, key=str)
        assert [value for part in columns for value in part.values] == [
            record.value for part in columns for record in part.records()
        ]

    trio.run(main)


@PROTOCOLS
def test_a_group_continues_at_its_committed_offsets(target: Target, protocol: str) -> None:
    topic, group = target.topic(), {"group_id": new_group(), "group_protocol": protocol}

    async def main() -> None:
        await fill(target, topic, range(90))
        async with consumer(target, topic, **group, enable_auto_commit=False) as each:
            first = await read(each, 90)
            partition = TopicPartition(topic, 1)
            await each.commit({partition: CommittedOffset(10, metadata="ten")})
            assert await each.committed([partition, TopicPartition(topic, 2)]) == {
                partition: CommittedOffset(10, metadata="ten"),
                TopicPartition(topic, 2): None,
            }
            assert {await each.position(TopicPartition(topic, index)) for index in range(3)} == {30}
        async with consumer(target, topic, **group) as each:
            again = await read(each, 80)
            assert len(again) == 80
        await fill(target, topic, range(90, 120))
        async with consumer(target, topic, **group) as each:
            rest = await read(each, 30)
        assert numbers(first) == list(range(90))
        assert min(record.offset for record in again if record.partition == 1) == 10
        assert numbers(rest) == list(range(90, 120))

    trio.run(main)


@PROTOCOLS
def test_members_share_the_partitions_and_take_over_those_of_a_member_that_leaves(
    target: Target, protocol: str
) -> None:
    topic, settings = target.topic(), {"group_id": new_group(), "group_protocol": protocol}

    async def main() -> None:
        async with consumer(target, topic, **settings) as one:
            async with consumer(target, topic, **settings) as two:
                both = [one, two]
                await poll_until(both, lambda: all(m.assignment for m in both) and total(both) == PARTITIONS)
                await fill(target, topic, range(300))
                found: list[ConsumerRecord] = []
                while len(found) < 300:
                    for each in both:
                        found += await each.poll(0.05)
                assert numbers(found) == list(range(300))
            await poll_until([one], lambda: total([one]) == PARTITIONS)
            await fill(target, topic, range(300, 400))
            assert numbers(await read(one, 100)) == list(range(300, 400))

    def total(members: list[Consumer]) -> int:
        return len(frozenset[TopicPartition]().union(*(member.assignment for member in members)))

    trio.run(main)


class Heard:
    """A listener that notes its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    async def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
        await trio.lowlevel.checkpoint()
        self.calls.append(("assigned", len(partitions)))

    def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
        self.calls.append(("revoked", len(partitions)))


@PROTOCOLS
def test_a_listener_is_called_for_partitions_that_come_and_go(target: Target, protocol: str) -> None:
    topic, heard = target.topic(), Heard()

    async def main() -> None:
        await fill(target, topic, range(30))
        async with consumer(target, group_id=new_group(), group_protocol=protocol) as each:
            each.subscribe([topic], heard)
            assert len(await read(each, 30)) == 30
            await each.unsubscribe()
            assert each.assignment == frozenset()
            each.subscribe([topic], heard)
            await poll_until([each], lambda: len(each.assignment) == PARTITIONS)

    trio.run(main)
    calls = [call for call in heard.calls if call[1]]  # the coordinator may assign nothing first
    assert calls == [("assigned", 3), ("revoked", 3), ("assigned", 3), ("revoked", 3)]


def test_positions_move_by_seek_by_time_and_to_the_ends(target: Target) -> None:
    topic = target.topic()
    partition = TopicPartition(topic, 0)

    async def main() -> None:
        await fill(target, topic, range(300))
        async with consumer(target) as each:
            each.assign([partition])
            assert await each.position(partition) == 0
            each.seek(partition, 90)
            assert (await each.poll())[0].offset == 90
            each.seek_to_end()
            assert await each.position(partition) == 100
            each.seek_to_beginning([partition])
            assert await each.position(partition) == 0
            found = await each.offsets_for_times({partition: TIME_MS + 31})
            at = found[partition]
            assert at is not None
            assert (at.offset, at.timestamp) == (11, TIME_MS + 33)
            assert await each.offsets_for_times({partition: TIME_MS + 1000}) == {partition: None}
            assert await each.beginning_offsets([partition]) == {partition: 0}
            assert await each.end_offsets([partition]) == {partition: 100}
            assert await each.partitions_for(topic) == [0, 1, 2]
            assert topic in await each.topics()

    trio.run(main)


def test_a_paused_partition_returns_no_records_until_it_is_resumed(target: Target) -> None:
    topic = target.topic()
    paused = TopicPartition(topic, 0)

    async def main() -> None:
        await fill(target, topic, range(30))
        async with consumer(target) as each:
            each.assign([TopicPartition(topic, index) for index in range(3)])
            each.pause([paused])
            assert {record.partition for record in await read(each, 20)} == {1, 2}
            assert await each.poll(0.3) == []
            each.resume([paused])
            assert {record.partition for record in await read(each, 10)} == {0}

    trio.run(main)


def test_a_consumer_reads_committed_records_only_if_it_asks_for_them(target: Target) -> None:
    topic = target.topic()

    async def main() -> None:
        async with Producer(bootstrap_servers=target.servers, transactional_id=new_group()) as producer:
            await producer.init_transactions()
            for number in range(6):
                await producer.begin_transaction()
                await (await producer.send(topic, b"value %d" % number, partition=0))
                await (producer.commit_transaction() if number % 2 else producer.abort_transaction())
        async with consumer(target, topic) as each:
            assert numbers(await read(each, 6)) == [0, 1, 2, 3, 4, 5]
        async with consumer(target, topic, isolation_level="read_committed") as each:
            assert numbers(await read(each, 3)) == [1, 3, 5]

    trio.run(main)


@PROTOCOLS
def test_a_transactional_copy_has_each_record_once(target: Target, protocol: str) -> None:
    source, copy, group = target.topic(), target.topic(), new_group()
    settings = {"group_id": group, "group_protocol": protocol, "enable_auto_commit": False, "max_poll_records": 50}

    async def copy_some(stop_at: int) -> int:
        """Copy at least so many records, and return their number."""
        async with (
            Producer(bootstrap_servers=target.servers, transactional_id=group) as producer,
            consumer(target, source, **settings) as each,
        ):
            await producer.init_transactions()
            done = 0
            while done < stop_at:
                records = await each.poll()
                if not records:
                    continue
                async with producer.transaction():
                    for record in records:
                        await producer.send(copy, record.value, record.key, partition=record.partition)
                    offsets = {
                        TopicPartition(record.topic, record.partition): CommittedOffset(record.offset + 1)
                        for record in records
                    }
                    await producer.send_offsets_to_transaction(offsets, each.group_member())
                done += len(records)
            await producer.begin_transaction()
            await (await producer.send(copy, b"value 0"))  # the transaction is aborted at the end of the block
            return done

    async def main() -> list[ConsumerRecord]:
        await fill(target, source, range(300))
        await copy_some(300 - await copy_some(100))
        async with consumer(target, copy, isolation_level="read_committed") as each:
            return await read(each, 300)

    assert numbers(trio.run(main)) == list(range(300))


@PROTOCOLS
def test_a_pattern_finds_topics_that_are_created_later(target: Target, protocol: str) -> None:
    first, group = target.topic(), new_group()

    async def main() -> None:
        await fill(target, first, range(3))
        async with consumer(target, group_id=group, group_protocol=protocol, metadata_max_age_ms=500) as each:
            each.subscribe_pattern(f"{first}.*")
            assert numbers(await read(each, 3)) == [0, 1, 2]
            later = await trio.to_thread.run_sync(lambda: target.topic(name=f"{first}-later"))
            await fill(target, later, range(3, 6))
            assert numbers(await read(each, 3)) == [3, 4, 5]
            assert each.subscription == {first, later}

    trio.run(main)


def test_the_coordinator_evaluates_a_pattern_of_the_consumer_protocol(target: Target) -> None:
    topic = target.topic()

    async def main() -> None:
        await fill(target, topic, range(3))
        async with consumer(target, group_id=new_group(), group_protocol="consumer") as each:
            each.subscribe_server_pattern(f"{topic}.*")
            assert numbers(await read(each, 3)) == [0, 1, 2]

    trio.run(main)


@PROTOCOLS
def test_a_static_member_that_returns_keeps_its_partitions(target: Target, protocol: str) -> None:
    topic, heard = target.topic(), Heard()
    settings = {"group_id": new_group(), "group_protocol": protocol}

    async def main() -> None:
        async with consumer(target, **settings, group_instance_id="stays") as stays:
            stays.subscribe([topic], heard)
            async with consumer(target, topic, **settings, group_instance_id="returns") as returns:
                both = [stays, returns]
                await poll_until(both, lambda: sorted(len(each.assignment) for each in both) == [1, 2])
                before = returns.assignment
            heard.calls.clear()
            async with consumer(target, topic, **settings, group_instance_id="returns") as returns:
                await poll_until([stays, returns], lambda: bool(returns.assignment))
                assert returns.assignment == before
            assert heard.calls == []

    trio.run(main)


def test_without_a_reset_strategy_a_group_needs_a_committed_offset(target: Target) -> None:
    topic = target.topic()

    async def main() -> None:
        await fill(target, topic, range(3))
        async with consumer(target, topic, group_id=new_group(), auto_offset_reset="none") as each:
            with pytest.raises(NoOffsetForPartition):
                await read(each, 1)
            for partition in each.assignment:
                each.seek(partition, 0)
            assert numbers(await read(each, 3)) == [0, 1, 2]

    trio.run(main)
