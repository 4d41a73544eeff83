"""Tests of the recovery point of a log while the log is truncated, and of what the next start finds."""

from __future__ import annotations

import errno

import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.directory.root_checkpoints import RootCheckpoints
from pykbroker.storage.log.flusher import Flusher
from pykbroker.storage.log.log import Log
from tests.unit.storage.logs import NOW, SMALL, batch
from tests.unit.storage.real_directory import RealDirectory

KEY, TOPIC_ID = TopicPartition("topic", 0), bytes(range(16))
END = 30


async def flushed_log(directory: LogDirectory, *values: bytes) -> Log:
    """Return a log of END batches with these values, of which a checkpoint says that they are durable."""
    log = await directory.create_log(KEY, TOPIC_ID, SMALL)
    log.become_leader(1)
    for _ in range(END):
        log.appender.append(batch(*values), 1, NOW)
    await log.flush()
    await directory.checkpoints.write()
    return log


async def test_a_truncation_that_cannot_lower_a_checkpoint_leaves_the_log_as_it_was(
    real_dir: RealDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replica may be elected before it truncates its log again."""

    async def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    directory = await real_dir.open()
    log = await flushed_log(directory, b"old")
    with monkeypatch.context() as full:
        full.setattr(RootCheckpoints, "write", refuse)
        with pytest.raises(OSError, match="No space left"):
            await directory.truncation.truncate(KEY, 20)
        with pytest.raises(OSError, match="No space left"):
            await directory.truncation.truncate_fully(KEY, 50, 50)
    log.become_leader(2)
    log.appender.append(batch(b"new"), 2, NOW)
    await log.flush()
    assert log.recovery_point == log.log_end_offset == END + 1
    await directory.close(high_watermarks={KEY: END + 1})
    again = await (await real_dir.open()).open_log(KEY, TOPIC_ID, SMALL)
    assert again.log_end_offset == END + 1


@pytest.mark.parametrize("offset", [60, 61, 62])
async def test_a_start_after_a_kill_finds_a_log_that_was_truncated_inside_a_batch(
    real_dir: RealDirectory, offset: int
) -> None:
    directory = await real_dir.open()
    log = await flushed_log(directory, b"a", b"b", b"c")
    await directory.truncation.truncate(KEY, offset)
    assert log.log_end_offset == 60
    real_dir.crash()
    again = await (await real_dir.open()).open_log(KEY, TOPIC_ID, SMALL)
    assert again.log_end_offset == 60


async def test_a_log_that_cannot_be_begun_anew_keeps_its_leader_epochs(
    real_dir: RealDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The follower asks with its latest epoch where its log diverges. Without epochs, it is truncated further."""

    async def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    directory = await real_dir.open()
    log = await flushed_log(directory, b"old")
    before = log.epochs.entries
    with monkeypatch.context() as crowded:
        crowded.setattr(Flusher, "sync_names", refuse)
        with pytest.raises(OSError, match="Too many open files"):
            await directory.truncation.truncate_fully(KEY, 50, 50)
    assert log.epochs.entries == before != ()
    assert log.epochs.latest == 1
    await directory.truncation.truncate_fully(KEY, 50, 50)
    assert (log.epochs.entries, log.log_end_offset) == ((), 50)
