"""Tests of the quota of copies to another log directory: replica.alter.log.dirs.io.max.bytes.per.second (KIP-113)."""

from __future__ import annotations

from functools import partial

import trio
import trio.testing

from pykbroker.core.metadata.image import ConfigsImage, Delta, MetadataImage
from pykbroker.core.topic_partition import TopicPartition
from tests.unit.replica.host import Host, is_named
from tests.unit.replica.placing.test_moves_under_load import (
    BATCH_BYTES,
    Producer,
    a_host,
    arrives,
    ended,
    filled,
    offsets,
    under_way,
    until,
)

Clock = trio.testing.MockClock
BYTES_PER_S = 500_000
COUNT = 250
STEP_BYTES_MAX = 1 << 20


def limit(host: Host, bytes_per_s: int) -> None:
    """Apply the rate as a config of the broker."""
    rate = {"replica.alter.log.dirs.io.max.bytes.per.second": str(bytes_per_s)}
    configs = ConfigsImage({(4, "1"): rate})
    host.replicas.quotas.apply(Delta.since_nothing(MetadataImage(offset=1, configs=configs)))


async def test_a_copy_keeps_to_the_rate(autojump_clock: Clock) -> None:
    host, partition = await a_host()
    await filled(partition, COUNT)
    limit(host, BYTES_PER_S)
    began = trio.current_time()
    await arrives(host, partition)
    least = (COUNT * BATCH_BYTES - 2 * STEP_BYTES_MAX) / BYTES_PER_S
    assert least < trio.current_time() - began < 2 * COUNT * BATCH_BYTES / BYTES_PER_S
    assert await offsets(partition) == list(range(COUNT))


async def test_a_producer_is_not_throttled_by_the_quota_of_copies(autojump_clock: Clock) -> None:
    host, partition = await a_host()
    await filled(partition, COUNT)
    limit(host, BYTES_PER_S)
    producer = Producer(partition, 0.02)  # 800 kB a second, so that the copy does not catch up
    producer.acknowledged = COUNT
    async with under_way(host, producer.run):
        await host.replicas.move(TopicPartition("t", 0), "two")
        began, before = trio.current_time(), producer.acknowledged
        await trio.sleep_until(began + 20)
        assert producer.acknowledged - before > 900
        assert partition.directory is host.directories[0]
        limit(host, 1 << 40)
        await until(lambda: partition.directory is host.directories[1] and is_named(partition))
    assert await offsets(partition) == list(range(producer.acknowledged))


async def test_a_move_that_waits_for_the_quota_can_be_ended(autojump_clock: Clock) -> None:
    host, partition = await a_host()
    await filled(partition, COUNT)
    limit(host, 1)
    async with under_way(host):
        await host.replicas.move(TopicPartition("t", 0), "two")
        await trio.sleep_until(trio.current_time() + 1)
        (move,) = host.replicas.moves.into(host.directories[1])
        assert move.was_limited
        await host.replicas.move(TopicPartition("t", 0), "one")
        await ended(host)
        assert partition.directory is host.directories[0]
        limit(host, 1 << 40)
        await host.replicas.move(TopicPartition("t", 0), "two")
        await until(partial(is_named, partition))
