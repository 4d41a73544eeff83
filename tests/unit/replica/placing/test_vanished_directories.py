"""Directories of replicas that vanish while the broker runs: noticed with the next records, and fetched anew."""

from __future__ import annotations

import errno
from contextlib import suppress

import pytest
import trio
import trio.testing

from pykbroker.core.errors import ApiError
from tests.unit.replica.brokers import Broker, Cluster, pause
from tests.unit.replica.care.test_full_disks import end_offset, write
from tests.unit.replica.care.test_repairs import fill, repaired
from tests.unit.replica.test_replication import equal, until

Clock = trio.testing.MockClock
ROLLS = {"internal.segment.bytes": "300"}
COUNT = 5
NOTICED_S = 10.0
"""A time in which the chores of a log directory, and the sweep of repairs, find a log that went offline."""


def remove_directory(broker: Broker) -> None:
    for entries in (broker.volume.root.entries, broker.volume.root.durable):
        del entries["t-0"]


@pytest.mark.parametrize("node_id", [1, 2])
async def test_a_vanished_directory_is_noticed_when_a_segment_rolls(autojump_clock: Clock, node_id: int) -> None:
    cluster = Cluster(configs=ROLLS)
    async with cluster.up():
        await fill(cluster, COUNT)
        broker = cluster.brokers[node_id]
        remove_directory(broker)
        while broker.partition.repair is None:
            with trio.move_on_after(1), suppress(ApiError):
                await cluster.brokers[cluster.placed().leader].produce(b"more")
        await until(lambda: repaired(cluster, node_id))
        await write(cluster)
        await until(equal(cluster, end_offset(cluster), 1, 2, 3))


@pytest.mark.parametrize("node_id", [1, 2])
async def test_a_vanished_directory_is_noticed_after_the_next_record(autojump_clock: Clock, node_id: int) -> None:
    cluster = Cluster()
    async with cluster.up():
        await fill(cluster, COUNT)
        broker = cluster.brokers[node_id]
        cluster.nursery.start_soon(broker.directory.run)
        await pause(2)
        remove_directory(broker)
        await pause(NOTICED_S)
        assert broker.partition.is_online
        await write(cluster)
        await pause(NOTICED_S)
        await until(lambda: repaired(cluster, node_id))
        assert "t-0" in broker.volume.root.entries
        await write(cluster)
        await until(equal(cluster, end_offset(cluster), 1, 2, 3))


async def test_a_log_directory_that_vanishes_as_a_whole_fails(
    autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(configs=ROLLS)
    async with cluster.up():
        await fill(cluster, COUNT)
        directory = cluster.brokers[2].directory
        directory.fail(FileNotFoundError(errno.ENOENT, "a file is missing"))
        assert directory.failed is None
        monkeypatch.setattr(directory, "exists", bool)  # of all paths but the empty one
        directory.fail(FileNotFoundError(errno.ENOENT, "a file is missing"))
        assert directory.failed is not None
