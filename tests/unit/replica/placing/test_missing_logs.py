"""Replicas whose directory has vanished: lost if they may have had records, and created again if they had none."""

from __future__ import annotations

import errno

import pytest

from pykbroker.sim.volume import DiskCall, Volume
from pykbroker.storage.log.flusher import Flusher
from tests.unit.replica.host import IDS, NOW_MS, Host
from tests.unit.replica.placing.crashes import crashes
from tests.unit.storage.logs import batch

SEVERAL, ONLY = (1, 2), (1,)


def host_of(volumes: tuple[Volume, ...], brokers: tuple[int, ...], isr: tuple[int, ...] = (1,)) -> Host:
    host = Host(volumes, IDS[0])
    host.brokers, host.isr = brokers, isr
    return host


async def end(host: Host, *, is_clean: bool) -> None:
    """Stop a broker in order, or as SIGKILL does."""
    for directory in host.directories:
        if is_clean:
            await directory.close(high_watermarks=host.replicas.high_watermarks(directory))
    for disk in host.disks:
        disk.volume.locks.clear()


def drop(volume: Volume) -> None:
    """Remove the directory of the partition, durably."""
    for entries in (volume.root.entries, volume.root.durable):
        entries.pop("t-0", None)


@pytest.mark.parametrize(
    ("brokers", "isr", "is_clean", "records", "is_lost"),
    [
        (SEVERAL, (1,), False, 1, True),
        (SEVERAL, (1,), False, 0, True),
        (SEVERAL, (1,), True, 1, True),
        (SEVERAL, (1, 2), True, 1, True),
        (SEVERAL, (1,), True, 0, False),
        (ONLY, (1,), False, 1, False),
        (ONLY, (1,), True, 1, True),
        (ONLY, (1,), True, 0, False),
    ],
)
async def test_a_replica_without_its_directory_is_lost_if_it_may_have_had_records(
    brokers: tuple[int, ...], isr: tuple[int, ...], is_clean: bool, records: int, is_lost: bool
) -> None:
    """Without a follower, a leader of two replicas in the ISR has records, and a high watermark of 0."""
    volumes = Volume(), Volume()
    host = host_of(volumes, brokers, isr)
    partition = await host.open()
    for _ in range(records):
        partition.append(batch(b"v"), NOW_MS)
    assert (partition.high_watermark > 0) == (records > 0 and isr == (1,))
    await end(host, is_clean=is_clean)
    drop(volumes[0])
    for _life in range(3):
        host = host_of(volumes, brokers, isr)
        partition = await host.open()
        assert partition.is_online != is_lost
        assert ("t-0" in volumes[0].root.entries) != is_lost
        await end(host, is_clean=True)


async def test_a_new_replica_is_listed_before_it_leads_and_stays_so_while_its_directory_is_not_durable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def full(_: Flusher) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Flusher, "sync_directory", full)
    volumes = Volume(), Volume()
    host = host_of(volumes, SEVERAL)
    partition = await host.open()
    await partition.directory.checkpoints.write_high_watermarks(host.replicas.high_watermarks(partition.directory))
    await partition.directory.checkpoints.write()
    await end(host, is_clean=False)
    drop(volumes[0])
    assert not (await host_of(volumes, SEVERAL).open()).is_online


async def test_no_crash_while_a_replica_is_created_makes_it_a_lost_one() -> None:
    """A replica without records, the last one of an ISR, would otherwise stay offline."""
    volume, calls = Volume(), list[DiskCall]()
    volume.noted = lambda name, args: calls.append((name, args))
    await host_of((volume, Volume()), SEVERAL).open()
    replayed = Volume()
    assert len(calls) > 10
    for call, crashed in crashes(replayed, calls):
        assert (await host_of((crashed, Volume()), SEVERAL).open()).is_online, call


async def test_a_moved_replica_is_listed_in_its_new_directory() -> None:
    volumes = Volume(), Volume()
    host = host_of(volumes, SEVERAL)
    partition = await host.open()
    await host.replicas.move(partition.key, "two")
    await host.move_away(partition)
    partition.append(batch(b"v"), NOW_MS)
    await end(host, is_clean=False)
    drop(volumes[1])
    host = host_of(volumes, SEVERAL)
    host.assigned = IDS[1]
    partition = await host.open()
    assert not partition.is_online
    assert partition.directory is host.directories[1]
