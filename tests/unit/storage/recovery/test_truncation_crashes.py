"""Tests of power losses while a log is truncated and written again: it has either its old records or its new ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import pytest

from pykbroker.sim.crash_points import PowerLoss, Recording
from pykbroker.sim.disk import SimDisk
from pykbroker.sim.power_loss import ALL_KEPT, after_power_loss
from pykbroker.sim.volume import Volume
from tests.unit.storage.directory.test_directory_crashes import KEY, opened
from tests.unit.storage.logs import NOW, SMALL, batch, every_byte, open_log

TOPIC_ID = bytes(range(16))
OLD, NEW = 30, 12
"""Batches of one record, of which 14 fill a segment."""


@dataclass(frozen=True)
class Known:
    """The possible contents of the log after a crash: a prefix of one of them, including all records in `durable`."""

    contents: tuple[bytes, ...] = (b"",)
    durable: bytes = b""
    starts: tuple[int, ...] = (0,)


async def recorded_run(cut: int, begin: int | None = None) -> Recording[Known]:
    """Write and flush a log, truncate it in its directory, and write other records in the next epoch.

    With `begin`, the log begins anew there.
    """
    known = Known()
    recording = Recording(known)
    directory = await opened(recording.volume)
    log = await directory.create_log(KEY, TOPIC_ID, SMALL)
    await directory.checkpoints.write()
    before = b""
    for number in range(OLD):
        stored = batch(b"old %2d" % number)
        before += number.to_bytes(8, "big") + stored[8:12] + bytes(4) + stored[16:]
    known = Known((before,))
    recording.note(known)
    for number in range(OLD):
        log.appender.append(batch(b"old %2d" % number), 0, NOW)
    await log.flush()
    assert await every_byte(log) == before
    await directory.checkpoints.write()
    known = replace(known, durable=before[: cut * len(batch(b"old  0"))])
    recording.note(known)
    if begin is None:
        await directory.truncation.truncate(KEY, cut)
    else:
        cut, known = begin, replace(known, contents=(before, b""), starts=(0, begin))
        recording.note(known)
        await directory.truncation.truncate_fully(KEY, begin, begin)
        known = replace(known, starts=(begin,))
    after = known.durable
    for number in range(cut, cut + NEW):
        stored = batch(b"new %2d" % number)
        after += number.to_bytes(8, "big") + stored[8:12] + (1).to_bytes(4, "big") + stored[16:]
    known = replace(known, contents=(after,))
    recording.note(known)
    for number in range(cut, cut + NEW):
        log.appender.append(batch(b"new %2d" % number), 1, NOW)
    await log.flush()
    assert await every_byte(log) == after
    recording.note(replace(known, durable=after))
    await directory.checkpoints.write()
    return recording


async def check(ending: PowerLoss[Known]) -> None:
    where = f"point {ending.point} ({ending.last_call}), ending {ending.number}"
    directory = await opened(ending.volume)
    if KEY not in {one.key for one in directory.partitions()}:
        assert not ending.known.durable, where
        return
    log = await directory.open_log(KEY, TOPIC_ID, SMALL)
    found = await every_byte(log)
    assert log.log_start_offset in ending.known.starts, where
    assert log.log_end_offset - log.log_start_offset == len(found) // len(batch(b"old  0")), where
    assert any(content.startswith(found) for content in ending.known.contents), where
    assert found.startswith(ending.known.durable), where


@pytest.mark.parametrize("cut", [0, 5, 14, 29])
async def test_truncated_records_do_not_reappear_among_later_ones(cut: int) -> None:
    recording = await recorded_run(cut)
    for ending in recording.endings(6, cut):
        await check(ending)


@pytest.mark.parametrize("begin", [5, 30, 921])
async def test_a_log_that_begins_anew_is_the_old_one_or_the_new_one(begin: int) -> None:
    recording = await recorded_run(0, begin)
    for ending in recording.endings(6, begin):
        await check(ending)


@pytest.mark.parametrize("seed", range(3))
async def test_records_after_a_torn_batch_do_not_reappear_after_later_ones(seed: int) -> None:
    """The dropped segments have the same file names as later segments."""
    disk = SimDisk(Volume())
    log = await open_log(disk)
    for number in range(OLD):
        log.appender.append(batch(b"old %2d" % number), 0, NOW)
    second = log.segments.sealed[1]
    second.file.truncate(second.size - 10)
    recording = Recording(b"", after_power_loss(disk.volume, Random(0), ALL_KEPT))
    log = await open_log(SimDisk(recording.volume))
    kept, written = log.log_end_offset, await every_byte(log)
    assert second.base_offset < kept < second.next_offset
    recording.note(written)
    for number in range(kept, OLD):
        stored = batch(b"new %2d" % number)
        written += number.to_bytes(8, "big") + stored[8:12] + (1).to_bytes(4, "big") + stored[16:]
        recording.note(written)
        log.appender.append(stored, 1, NOW)
    assert second.next_offset in {one.base_offset for one in log.segments.every()}
    for ending in recording.endings(10, seed):
        again = await open_log(SimDisk(ending.volume))
        assert written.startswith(await every_byte(again)), f"{ending.point} ({ending.last_call}), {ending.number}"
