"""The power goes while a log is cut back and written anew: it goes on with what it was, or with what it became."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from pykbroker.sim.crash_points import Ending, Recording
from tests.unit.storage.logs import NOW, SMALL, batch, every_byte
from tests.unit.storage.test_directory_crashes import KEY, opened

TOPIC_ID = bytes(range(16))
OLD, NEW = 30, 12
"""Batches of one record; 14 of them fill a segment."""


@dataclass(frozen=True)
class Known:
    """Contents one of which the log is a beginning of; all of `durable` is in it."""

    contents: tuple[bytes, ...] = (b"",)
    durable: bytes = b""


async def lived(cut: int) -> Recording[Known]:
    """Written and flushed, then cut at an offset in the directory, and written differently under the next epoch."""
    known = Known()
    recording = Recording(known)
    directory = await opened(recording.volume)
    log = await directory.create_log(*KEY, TOPIC_ID, SMALL)
    await directory.checkpoint()
    before = b""
    for number in range(OLD):
        stored = batch(b"old %2d" % number)
        before += number.to_bytes(8, "big") + stored[8:12] + bytes(4) + stored[16:]
    known = Known((before,))
    recording.note(known)
    for number in range(OLD):
        log.append(batch(b"old %2d" % number), 0, NOW)
    await log.flush()
    assert await every_byte(log) == before
    await directory.checkpoint()
    known = replace(known, durable=before[: cut * len(batch(b"old  0"))])
    recording.note(known)
    await directory.truncate(*KEY, cut)
    after = known.durable
    for number in range(cut, cut + NEW):
        stored = batch(b"new %2d" % number)
        after += number.to_bytes(8, "big") + stored[8:12] + (1).to_bytes(4, "big") + stored[16:]
    known = replace(known, contents=(after,))
    recording.note(known)
    for number in range(cut, cut + NEW):
        log.append(batch(b"new %2d" % number), 1, NOW)
    await log.flush()
    assert await every_byte(log) == after
    recording.note(replace(known, durable=after))
    await directory.checkpoint()
    return recording


async def check(ending: Ending[Known]) -> None:
    where = f"point {ending.point} ({ending.last_call}), ending {ending.number}"
    directory = await opened(ending.volume)
    if KEY not in {(one.topic, one.partition) for one in directory.partitions()}:
        assert not ending.known.durable, where
        return
    log = await directory.open_log(*KEY, TOPIC_ID, SMALL)
    found = await every_byte(log)
    assert log.log_start_offset == 0, where
    assert any(content.startswith(found) for content in ending.known.contents), where
    assert found.startswith(ending.known.durable), where


@pytest.mark.parametrize("cut", [0, 5, 14, 29])
async def test_what_was_cut_off_does_not_come_back_beneath_what_follows(cut: int) -> None:
    recording = await lived(cut)
    for ending in recording.endings(6, cut):
        await check(ending)
