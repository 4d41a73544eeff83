"""Tests of metadata about thousands of partitions, which is applied a few partitions at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from msgspec.structs import replace

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.live_config import LiveConfig
from pykbroker.core.metadata.image import Delta, MetadataImage, PartitionImage, TopicImage, TopicsImage
from pykbroker.replica.care.upkeep import high_watermarks
from pykbroker.replica.partition.own_broker import OwnBroker
from pykbroker.replica.placing.places import Places
from pykbroker.replica.replicas import Replicas
from pykbroker.replica.topic_configs import TopicConfigs
from pykbroker.sim.disk import SimDisk
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.sim.volume import Volume
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.world.portions import AT_ONCE_MAX

MANY = 8 * AT_ONCE_MAX
TOPIC = TopicImage("t", b"t" * 16, {index: PartitionImage((1,), (1,), 1, 0, 0) for index in range(MANY)})
FIRST = Delta.since_nothing(MetadataImage(offset=1, topics=TopicsImage({"t": TOPIC}, {TOPIC.id: TOPIC})))
LATER = Delta(FIRST.image, replace(FIRST.image, offset=2))
LED_ANEW = replace(LATER, topics_changed=frozenset([TOPIC.id]))
CONFIGURED = replace(LATER, configs_changed=frozenset([(4, "")]))
GONE = replace(LATER, image=MetadataImage(offset=2), topics_deleted=(TOPIC,))


async def serving() -> Replicas:
    directory = await LogDirectory.open(
        SimDisk(Volume()), off_loop=InlineOffLoop(), wall_ms=lambda: 0, jitter=lambda: 0.5
    )
    replicas = Replicas(
        OwnBroker(1), Places((directory,), (b"1" * 16,)), TopicConfigs(LiveConfig(BrokerConfig.from_mapping({})))
    )
    await replicas.apply(FIRST)
    return replicas


async def passes_of_other_tasks(work: Awaitable[object]) -> int:
    """Return how often other tasks run during the work."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        await work
        nursery.cancel_scope.cancel()
    return turns


@pytest.mark.parametrize(
    "work",
    [
        lambda replicas: replicas.apply(LED_ANEW),
        lambda replicas: replicas.apply(CONFIGURED),
        lambda replicas: replicas.misplaced(LED_ANEW),
        lambda replicas: high_watermarks(replicas, replicas.places.directories[0]),
    ],
    ids=["led anew", "configured", "looked for", "high watermarks"],
)
async def test_other_tasks_run_while_metadata_of_many_partitions_is_applied(
    work: Callable[[Replicas], Awaitable[object]],
) -> None:
    replicas = await serving()
    # Half of the passes, because trio runs ready tasks in random order.
    assert await passes_of_other_tasks(work(replicas)) >= MANY // AT_ONCE_MAX // 2


async def test_high_watermarks_that_are_collected_in_portions_are_complete() -> None:
    replicas = await serving()
    (directory,) = replicas.places.directories
    found = await high_watermarks(replicas, directory)
    assert len(found) == MANY
    assert found == replicas.high_watermarks(directory)


async def test_all_partitions_of_a_deleted_topic_are_removed() -> None:
    replicas = await serving()
    assert len(replicas.all_online()) == MANY
    await replicas.apply(GONE)
    assert replicas.all_online() == []
