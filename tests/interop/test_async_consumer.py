"""The consumer for asyncio against this broker and against three nodes of Apache Kafka."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from pykbroker.consumer import AsyncConsumer, CommittedOffset
from pykbroker.core.consumer.errors import ConsumerClosed
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.producer import AsyncProducer
from tests.interop.target import LOST_SESSION_MS, PARTITIONS, Target

pytestmark = pytest.mark.timeout(60)
RECORDS = 600
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def consumer(target: Target, *topics: str, **settings: Any) -> AsyncConsumer:
    quick: dict[str, Any] = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}
    if settings.get("group_protocol") != "consumer":
        quick |= {"heartbeat_interval_ms": 200, "session_timeout_ms": LOST_SESSION_MS}
    return AsyncConsumer(*topics, bootstrap_servers=target.servers, **quick | settings)


async def fill(target: Target, topic: str, numbers: range) -> None:
    async with AsyncProducer(bootstrap_servers=target.servers) as producer:
        for number in numbers:
            await producer.send(topic, b"%d" % number, partition=number % PARTITIONS)


async def read(each: AsyncConsumer, count: int) -> list[int]:
    """Return the numbers of the next records, sorted."""
    found: list[int] = []
    while len(found) < count:
        for records in (await each.getmany(timeout_ms=20_000)).values():
            found += [int(record.value or b"") for record in records]
    return sorted(found)


@PROTOCOLS
def test_a_group_continues_behind_the_records_that_were_returned(target: Target, protocol: str) -> None:
    topic = target.topic()
    settings = {"group_id": uuid.uuid4().hex, "group_protocol": protocol}

    async def main() -> list[int]:
        await fill(target, topic, range(RECORDS))
        async with consumer(target, topic, **settings) as each:
            found = [int((await each.getone()).value or b"") for _ in range(100)]
            assert len(each.assignment()) == PARTITIONS
        async with consumer(target, topic, **settings) as each:
            async for record in each:
                found.append(int(record.value or b""))
                if len(found) == 200:
                    break
        async with consumer(target, topic, **settings) as each:
            return sorted(found + await read(each, RECORDS - 200))

    assert asyncio.run(main()) == list(range(RECORDS))


def test_a_call_that_is_cancelled_loses_no_record(target: Target) -> None:
    topic = target.topic()

    async def main() -> None:
        found: list[int] = []
        async with consumer(target, topic, max_poll_records=20) as each:
            filling = asyncio.create_task(fill(target, topic, range(RECORDS)))
            step = 0
            while len(found) < RECORDS:
                step += 1
                try:
                    record = await asyncio.wait_for(each.getone(), 0.0001 * (step % 20))
                except TimeoutError:
                    continue
                found.append(int(record.value or b""))
            await filling
        assert sorted(found) == list(range(RECORDS))

    asyncio.run(main())


class Heard:
    """An async listener, which commits what is given up."""

    def __init__(self, each: AsyncConsumer) -> None:
        self._consumer = each
        self.calls: list[tuple[str, int]] = []

    async def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
        await self._note("assigned", partitions)

    async def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
        await self._consumer.commit()
        await self._note("revoked", partitions)

    async def _note(self, event: str, partitions: set[TopicPartition]) -> None:
        await asyncio.sleep(0)
        if partitions:
            self.calls.append((event, len(partitions)))


@PROTOCOLS
def test_an_async_listener_may_commit_the_partitions_that_go(target: Target, protocol: str) -> None:
    topic, group = target.topic(), uuid.uuid4().hex

    async def main() -> None:
        await fill(target, topic, range(RECORDS))
        settings = {"group_id": group, "group_protocol": protocol, "enable_auto_commit": False}
        async with consumer(target, **settings) as each:
            heard = Heard(each)
            each.subscribe([topic], listener=heard)
            assert await read(each, RECORDS) == list(range(RECORDS))
            await each.unsubscribe()
            assert heard.calls == [("assigned", PARTITIONS), ("revoked", PARTITIONS)]
            place = TopicPartition(topic, 0)
            assert await each.committed(place) == RECORDS // PARTITIONS
            await each.commit({place: 7})
            assert await each.committed(place) == 7

    asyncio.run(main())


def test_positions_and_ends_of_assigned_partitions(target: Target) -> None:
    topic = target.topic()
    place = TopicPartition(topic, 1)

    async def main() -> None:
        await fill(target, topic, range(RECORDS))
        async with consumer(target, group_id=uuid.uuid4().hex) as each:
            each.assign([place])
            each.seek(place, 190)
            assert [record.offset for record in (await each.getmany(timeout_ms=20_000))[place]] == list(range(190, 200))
            assert (await each.position(place), each.highwater(place)) == (200, 200)
            await each.seek_to_beginning(place)
            assert await each.position(place) == 0
            await each.commit({place: (5, "five")})
            assert await each.seek_to_committed() == {place: 5}
            assert (await each.getone()).offset == 5
            assert await each.beginning_offsets([place]) == {place: 0}
            assert await each.end_offsets([place]) == {place: 200}
            assert await each.partitions_for(topic) == [0, 1, 2]
            each.pause(place)
            assert (each.paused(), await each.getmany(timeout_ms=200)) == ({place}, {})
            each.resume(place)
            assert (await each.getone()).offset == 6
            assert sum(map(len, await each.poll_columns())) == 193
        with pytest.raises(ConsumerClosed):
            await each.getone()

    asyncio.run(main())


def test_records_of_some_partitions_only(target: Target) -> None:
    topic = target.topic()
    first, second, third = (TopicPartition(topic, index) for index in range(PARTITIONS))

    async def main() -> None:
        await fill(target, topic, range(RECORDS))
        found: dict[TopicPartition, list[int]] = {first: [], second: [], third: []}
        async with consumer(target, topic, max_poll_records=7) as each:
            found[third].append((await each.getone(third)).offset)
            await anext(each)  # leaves records of any partition unread
            each.seek(first, 0)
            each.seek(second, 0)
            each.seek(third, 1)
            while len(found[second]) < 100:
                for place, records in (await each.getmany(second, timeout_ms=20_000)).items():
                    found[place] += [record.offset for record in records]
            assert (len(found[first]), len(found[third])) == (0, 1)
            found[first].append((await each.getone(first)).offset)
            while sum(map(len, found.values())) < RECORDS:
                for place, records in (await each.getmany(timeout_ms=20_000)).items():
                    found[place] += [record.offset for record in records]
        assert found == {place: list(range(RECORDS // PARTITIONS)) for place in found}

    asyncio.run(main())


def test_a_transactional_copy_has_each_record_once(target: Target) -> None:
    source, copy, group = target.topic(), target.topic(), uuid.uuid4().hex

    async def copy_some(stop_at: int) -> int:
        """Copy at least so many records, and return their number."""
        done = 0
        settings = {"group_id": group, "enable_auto_commit": False, "max_poll_records": 50}
        async with (
            AsyncProducer(bootstrap_servers=target.servers, transactional_id=group) as producer,
            consumer(target, source, **settings) as each,
        ):
            while done < stop_at:
                for place, records in (await each.getmany(timeout_ms=1000)).items():
                    async with producer.transaction():
                        for record in records:
                            await producer.send(copy, record.value, partition=record.partition)
                        offsets = {place: CommittedOffset(records[-1].offset + 1)}
                        await producer.send_offsets_to_transaction(offsets, each.group_member())
                    done += len(records)
        return done

    async def main() -> list[int]:
        await fill(target, source, range(RECORDS))
        await copy_some(RECORDS - await copy_some(300))
        async with consumer(target, copy, isolation_level="read_committed") as each:
            return await read(each, RECORDS)

    assert asyncio.run(main()) == list(range(RECORDS))
