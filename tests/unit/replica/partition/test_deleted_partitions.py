"""A topic is deleted while its partition's log is read: the missing files are no damage."""

from __future__ import annotations

import logging

import pytest
import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.replication.following import Following
from pykbroker.replica.partition.partition import Partition
from pykbroker.sim.volume import Volume
from pykbroker.storage.files.errors import patiently
from tests.unit.replica.host import IDS, NOW_MS, TOPIC_ID, Host
from tests.unit.replica.placing.test_moves_of_followers import batch
from wire.error_codes import ErrorCode

COUNT = 90
STEPS_MAX = 30
"""The number of steps of the event loop after which the look-up has ended."""


async def reopened() -> tuple[Host, Partition]:
    """Return the replicas of a broker that was stopped in order: the segments of its log are not loaded."""
    host = Host((Volume(), Volume()), IDS[0])
    partition = await host.open()
    partition.resign(Following(1))
    assert partition.log is not None
    partition.log.append_stored(b"".join(batch(offset, 1) for offset in range(COUNT)))
    for directory in host.directories:
        await directory.close(high_watermarks={partition.key: COUNT})
    partition = await host.open()
    partition.resign(Following(1, has_leader=True))
    return host, partition


async def test_the_deletion_of_a_topic_does_not_take_its_partition_offline(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    codes: list[ErrorCode] = []

    async def look_up(partition: Partition) -> None:
        log = partition.log
        assert log is not None
        try:
            with partition.errors():
                await patiently(lambda: log.reader.offset_for_timestamp(NOW_MS + 1, COUNT))
        except ApiError as absence:
            codes.append(absence.code)

    for steps in range(0, STEPS_MAX, 2):
        host, partition = await reopened()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(look_up, partition)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            await host.replicas._drop([host.replicas.metadata.topics.by_id[TOPIC_ID]])
        for directory in host.directories:
            assert await directory.close(high_watermarks={}) is None
            assert directory._offline == set()
    assert set(codes) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert not caplog.records
