"""Directories of a topic that was deleted and created again under the same name while the broker did not run."""

from __future__ import annotations

from random import Random

import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.sim.power_loss import ALL_KEPT, after_power_loss
from pykbroker.sim.volume import DiskCall, Inode, Volume
from pykbroker.storage.files.partition_directory import METADATA
from tests.unit.replica.host import IDS, NOW_MS, PATHS, TOPIC_ID, Host
from tests.unit.replica.placing.crashes import crashes
from tests.unit.storage.logs import batch

NEW_ID = bytes(reversed(range(16)))
STRAY = f"t-0.{TOPIC_ID.hex()}-stray"
KEY = TopicPartition("t", 0)
COUNT = 5


def host_of(volumes: tuple[Volume, ...], assigned: bytes, *, is_again: bool) -> Host:
    """Return broker 1 with a replica that is not in the ISR, of the first topic, or of the one that was created again.

    The first topic has this replica only.
    """
    host = Host(volumes, assigned)
    if is_again:
        host.topic_id, host.brokers, host.isr = NEW_ID, (1, 2), (2,)
    return host


async def close(host: Host) -> None:
    for directory in host.directories:
        await directory.close(high_watermarks=host.replicas.high_watermarks(directory))


async def fill(host: Host) -> None:
    """Append records to a new log, close it, and keep its high watermark in the checkpoint."""
    partition = await host.open()
    for number in range(COUNT):
        partition.append(batch(b"%d" % number), NOW_MS)
    await close(host)


def names(volume: Volume) -> list[str]:
    return sorted(name for name in volume.root.entries if name.startswith("t-0"))


def content(volume: Volume, name: str) -> bytes:
    found = volume.find(name)
    assert isinstance(found, Inode)
    return bytes(found.content)


async def test_the_directory_of_the_first_topic_is_set_aside_and_the_replica_begins_empty(
    caplog: pytest.LogCaptureFixture,
) -> None:
    volumes = Volume(), Volume()
    await fill(host_of(volumes, IDS[0], is_again=False))
    before = content(volumes[0], f"t-0/{0:020d}.log")
    host = host_of(volumes, IDS[0], is_again=True)
    partition = await host.open()
    assert partition.is_online
    assert partition.log is not None
    assert (partition.log.log_end_offset, partition.high_watermark) == (0, 0)
    assert names(volumes[0]) == ["t-0", STRAY]
    assert content(volumes[0], f"{STRAY}/{0:020d}.log") == before
    assert f"one/t-0 belongs to a topic or partition that does not exist, and is set aside as {STRAY}" in caplog.text
    await close(host)
    host = host_of(volumes, IDS[0], is_again=True)
    assert (await host.open()).is_online
    assert names(volumes[0]) == ["t-0", STRAY]


@pytest.mark.parametrize(
    ("brokers", "isr", "has_metadata"),
    [((1,), (1,), True), ((1, 2), (1, 2), True), ((1, 2), (2,), False)],
    ids=["the only replica", "in the ISR", "no topic id"],
)
async def test_a_directory_that_may_have_acknowledged_records_is_not_replaced(
    brokers: tuple[int, ...], isr: tuple[int, ...], has_metadata: bool
) -> None:
    volumes = Volume(), Volume()
    await fill(host_of(volumes, IDS[0], is_again=False))
    before = content(volumes[0], f"t-0/{0:020d}.log")
    if not has_metadata:
        volumes[0].remove(f"t-0/{METADATA}")
    host = host_of(volumes, IDS[0], is_again=True)
    host.brokers, host.isr = brokers, isr
    assert not (await host.open()).is_online
    assert names(volumes[0]) == ["t-0"]
    assert content(volumes[0], f"t-0/{0:020d}.log") == before


@pytest.mark.parametrize("old", [0, 1])
async def test_the_directory_of_the_first_topic_on_a_repaired_disk_is_set_aside(old: int) -> None:
    """The disk had failed while the topic was deleted and created again."""
    volumes = [Volume(), Volume()]
    await fill(host_of(tuple(volumes), IDS[old], is_again=False))
    old_volume, volumes[old] = volumes[old], Volume()
    new = 1 - old
    host = host_of(tuple(volumes), IDS[new], is_again=True)
    partition = await host.open()
    assert partition.log is not None
    partition.log.append_stored(batch(b"new", leader_epoch=0))
    await close(host)
    volumes[old] = old_volume
    host = host_of(tuple(volumes), IDS[new], is_again=True)
    partition = await host.open()
    assert partition.directory is host.directories[new]
    assert partition.log is not None
    assert partition.log.log_end_offset == 1
    assert (names(volumes[old]), names(volumes[new])) == ([STRAY], ["t-0"])
    assert host.replicas.places.emptiest() is host.directories[old]


async def test_the_copy_of_the_first_topic_is_set_aside(caplog: pytest.LogCaptureFixture) -> None:
    volumes = Volume(), Volume()
    host = host_of(volumes, IDS[0], is_again=False)
    await host.open()
    await host.replicas.move(KEY, PATHS[1])
    await close(host)
    assert [name.rpartition("-")[2] for name in names(volumes[1])] == ["future"]
    host = host_of(volumes, IDS[1], is_again=True)
    partition = await host.open()
    assert partition.is_online
    assert partition.directory is host.directories[1]
    assert names(volumes[0]) == [STRAY]
    assert [name.rpartition("-")[2] for name in names(volumes[1])] == ["0", "stray"]
    assert "is a copy of a partition that does not exist" in caplog.text


async def test_no_crash_while_a_stray_is_set_aside_leaves_the_replica_offline() -> None:
    """The checkpoint of the first topic must not make the new replica a lost one."""
    volume, other = Volume(), Volume()
    await fill(host_of((volume, other), IDS[0], is_again=False))
    calls: list[DiskCall] = []
    before = after_power_loss(volume, Random(0), ALL_KEPT)
    replayed = after_power_loss(volume, Random(0), ALL_KEPT)
    before.noted = lambda name, args: calls.append((name, args))
    await host_of((before, other), IDS[0], is_again=True).open()
    assert len(calls) > 10
    for call, crashed in crashes(replayed, calls):
        partition = await host_of((crashed, Volume()), IDS[0], is_again=True).open()
        assert partition.is_online, call
        assert partition.log is not None
        assert partition.log.log_end_offset == 0
        assert STRAY in names(crashed), call
