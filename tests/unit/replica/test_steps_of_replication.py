"""Fetches and ISR changes of thousands of partitions: they are handled a few partitions at a time."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.replication.isr_change import IsrAnswer, IsrChange
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.leading.follower_fetches import FollowerReading
from pykbroker.replica.leading.isr_changes import IsrChanges
from pykbroker.replica.partition.consumer_reading import ConsumerReading
from pykbroker.replica.partition.own_broker import OwnBroker
from pykbroker.replica.partition.reading import Reading
from pykbroker.replica.partition.topic_traffic import TopicTraffic
from pykbroker.sim.disk import SimDisk
from pykbroker.sim.volume import Volume
from pykbroker.storage.directory.root_checkpoints import RootCheckpoints
from pykbroker.storage.files.checkpoints import HIGH_WATERMARKS, encode_offsets
from pykbroker.storage.files.small_files import read_disposable
from pykbroker.world.portions import AT_ONCE_MAX
from tests.unit.replica.test_many_partitions import passes_of_other_tasks
from wire.error_codes import ErrorCode
from wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from wire.messages.alter_partition import AlterPartitionResponsePartitionData as Altered
from wire.messages.alter_partition import AlterPartitionResponseTopicData as AlteredTopic
from wire.messages.fetch import FetchPartition

MANY = 8 * AT_ONCE_MAX
PASSES_MIN = MANY // AT_ONCE_MAX // 2
"""Half of the portions, because trio runs ready tasks in random order."""


class Refusing:
    """A partition that this broker does not lead."""

    topic_id = b"t" * 16
    traffic = TopicTraffic()

    def __init__(self, index: int) -> None:
        self.index, self.key = index, TopicPartition("t", index)

    def require_leader(self, epoch: int) -> Any:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def reading_of_a_consumer(wanted: dict[Any, Any]) -> Reading:
    return ConsumerReading(list(wanted.items()), 1, 1000, committed_only=False)


def reading_of_a_follower(wanted: dict[Any, Any]) -> Reading:
    session: Any = SimpleNamespace(due=wanted, calm=lambda: None, unlocated=(), fetched_ms=0)
    keeper: Any = SimpleNamespace(broker=SimpleNamespace(now_ms=1))
    unused: Any = None
    return FollowerReading(unused, unused, session, keeper, 1, 1000)


@pytest.mark.parametrize("reading_of", [reading_of_a_consumer, reading_of_a_follower])
@pytest.mark.parametrize("count", [0, 1, AT_ONCE_MAX - 1, AT_ONCE_MAX, AT_ONCE_MAX + 1, MANY])
async def test_a_fetch_that_has_waited_reads_all_partitions_in_portions(
    count: int, reading_of: Callable[[dict[Any, Any]], Reading]
) -> None:
    reading = reading_of(
        {Refusing(index): SimpleNamespace(asked=FetchPartition(partition=index)) for index in range(count)}
    )
    passes = await passes_of_other_tasks(reading.read_patiently())
    assert [data.partition_index for _, data in reading.results()] == list(range(count))
    assert passes >= (PASSES_MIN if count == MANY else 0)


class Proposing:
    """A keeper of ISRs that proposes to change those of many partitions once, and notes the answers."""

    broker = OwnBroker(1)

    def __init__(self) -> None:
        change = IsrChange(0, 0, ((1, 1),))
        self.changes = {Refusing(index): change for index in range(MANY)}
        self.settled: list[tuple[int, ErrorCode]] = []
        self.waits = trio.Event()

    async def take(self) -> Any:
        if self.settled:
            self.waits.set()
            await trio.sleep_forever()
        return self.changes

    def settle(self, partition: Any, change: IsrChange, answer: IsrAnswer) -> bool:
        self.settled.append((partition.index, answer.error))
        return False


class Altering:
    """A controller that changes all ISRs."""

    async def ask(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        return AlterPartitionResponse(
            topics=[
                AlteredTopic(topic.topic_id, [Altered(one.partition_index) for one in topic.partitions])
                for topic in request.topics
            ]
        )


async def test_the_answers_to_many_changes_of_isrs_are_applied_in_portions() -> None:
    proposing = Proposing()
    keeper: Any = proposing

    async def change() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(IsrChanges(keeper, Altering()).run)
            await proposing.waits.wait()
            nursery.cancel_scope.cancel()

    assert await passes_of_other_tasks(change()) >= PASSES_MIN
    assert proposing.settled == [(index, ErrorCode.NONE) for index in range(MANY)]


@pytest.mark.parametrize("count", [0, AT_ONCE_MAX, AT_ONCE_MAX + 1, MANY])
async def test_a_checkpoint_of_many_partitions_is_written_in_portions(count: int) -> None:
    disk = SimDisk(Volume())
    checkpoints = await RootCheckpoints.read(disk)
    keys = [TopicPartition(f"t{index % 3}", index) for index in range(count)]
    Random(1).shuffle(keys)
    offsets = {key: key.partition * 7 for key in keys}
    passes = await passes_of_other_tasks(checkpoints.write(HIGH_WATERMARKS, lambda: offsets))
    assert await read_disposable(disk, HIGH_WATERMARKS) == encode_offsets(offsets)
    assert checkpoints.on_disk(HIGH_WATERMARKS) == offsets
    assert passes >= (PASSES_MIN if count == MANY else 0)
