"""Tests that nothing that is remembered beside a log outlives a jump of the log's start or end.

Each test makes a log jump, appends records of another history after the jump, and kills the broker or stops it in
order. The next start must find exactly the log that the broker had.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.files.checkpoints import CLEANED, EPOCHS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from pykbroker.storage.files.errors import LacksBegin
from pykbroker.storage.log import flusher
from pykbroker.storage.log.flusher import Flusher
from pykbroker.storage.log.log import Log
from tests.unit.storage.logs import NOW, SMALL, append_in_transaction, batch, every_byte, marker, slowly
from tests.unit.storage.real_directory import RealDirectory
from wire.records.batch import batches

KEY, TOPIC_ID = TopicPartition("topic", 0), bytes(range(16))
PAIRS = 40
END = 3 * PAIRS
"""The end of the log before the jump: an aborted transaction of one record, and a record of producer 5, in turn."""
ABORTED, OLD, NEW, OTHER = 4, 5, 6, 7
"""Producers: of aborted transactions before the jump, of records before it and after it, and in a transaction after."""
Jump = Callable[[LogDirectory, Log], Awaitable[object]]


async def long_log(directory: LogDirectory) -> Log:
    """Return a log of several segments, which was flushed in the middle, with all its offsets in checkpoints."""
    log = await directory.create_log(KEY, TOPIC_ID, SMALL)
    log.become_leader(1)
    for number in range(PAIRS):
        if number == PAIRS // 2:
            log.become_leader(2)
            await log.flush()
        fields: Any = {"producer_epoch": 0, "base_sequence": number, "timestamp": NOW + number}
        epoch = log.epochs.latest
        append_in_transaction(log, batch(b"t", producer_id=ABORTED, transactional=True, **fields), epoch)
        log.append_as_leader(marker(ABORTED, commit=False), epoch)
        log.appender.append(batch(b"old", producer_id=OLD, **fields), epoch, NOW)
    log.state.take_snapshot()  # as a start after a crash does
    log.delete_records(1)  # which a checkpoint has, since it is inside the first segment
    log.cleaned_offset = END - 10
    await directory.checkpoints.write()
    await directory.checkpoints.write_cleaned()
    await directory.checkpoints.write_high_watermarks({KEY: END})
    assert (log.log_end_offset, len(log.segments.sealed) > 5) == (END, True)
    return log


def stored(log: Log, leader_epoch: int, **fields: Any) -> bytes:
    """Return a batch of another history, as a follower receives it."""
    return batch(base_offset=log.log_end_offset, leader_epoch=leader_epoch, **fields)


def append_others(log: Log) -> None:
    """Append records of other leader epochs and producers, and an aborted transaction."""
    for number in range(20):
        fields: Any = {"producer_epoch": 0, "base_sequence": number, "timestamp": NOW + 1000 + number}
        log.append_stored(stored(log, 7 + (number > 10), producer_id=NEW, **fields))
        if number == 10:
            log.append_stored(stored(log, 8, producer_id=OTHER, transactional=True, **fields))
            aborted = bytearray(marker(OTHER, commit=False))
            aborted[:8] = log.log_end_offset.to_bytes(8, "big")
            aborted[12:16] = (8).to_bytes(4, "big")
            log.append_stored(bytes(aborted))


async def state_of(log: Log) -> dict[str, object]:
    """Return what a log remembers."""
    start, end = log.log_start_offset, log.log_end_offset
    return {
        "bytes": await every_byte(log),
        "end": end,
        "epochs": [(epoch, max(begin, start)) for epoch, begin in log.epochs.entries if begin < end],
        "producers": {
            one.producer_id: (one.next_sequence, [last.last_offset for last in one.batches][-1:])
            for one in log.producers.entries()
        },
        "aborted": await log.reader.aborted_between(start, end),
        "stable": log.reader.last_stable_offset(end),
        "youngest": await slowly(log.reader.max_timestamp),
        "since": await slowly(log.reader.offset_for_timestamp, NOW + 1005, end),
        "cleaned": log.cleaned_offset,
    }


async def deleted(_: LogDirectory, log: Log) -> None:
    log.delete_records(50)


async def retained(_: LogDirectory, log: Log) -> None:
    log.delete_records(70)
    await log.retain(NOW, END)


async def retained_wholly(_: LogDirectory, log: Log) -> None:
    log.delete_records(END)
    await log.retain(NOW, END)


JUMPS: dict[str, tuple[Jump, int, int]] = {
    "delete_records": (deleted, 50, END),
    "retain": (retained, 0, END),
    "retain all": (retained_wholly, END, END),
    "truncate": (lambda directory, _: directory.truncation.truncate(KEY, 61), 1, 61),
    "truncate to the log start": (lambda directory, _: directory.truncation.truncate(KEY, 0), 0, 0),
    "begin anew above": (lambda directory, _: directory.truncation.truncate_fully(KEY, 921, 921), 921, 921),
    "begin anew at the end": (lambda directory, _: directory.truncation.truncate_fully(KEY, END, END), END, END),
    "begin anew below": (lambda directory, _: directory.truncation.truncate_fully(KEY, 30, 30), 30, 30),
    "begin anew inside a batch": (lambda directory, _: directory.truncation.truncate_fully(KEY, 920, 921), 921, 920),
}
"""The jumps by their names, with the log start offset and the end after each."""
ANEW = [name for name in JUMPS if name.startswith("begin anew")]


async def jumped(real_dir: RealDirectory, name: str) -> tuple[LogDirectory, Log]:
    """Return a log after a jump, and its directory."""
    directory = await real_dir.open()
    log = await long_log(directory)
    jump, start, end = JUMPS[name]
    await jump(directory, log)
    assert (log.log_start_offset, log.log_end_offset) == (start or log.log_start_offset, end)
    return directory, log


async def started(real_dir: RealDirectory, directory: LogDirectory, ending: str) -> Log:
    """Kill the broker or stop it in order, start it, and return the log."""
    if ending == "stop":
        await directory.close(high_watermarks={KEY: directory.logs[KEY].log_end_offset})
    else:
        real_dir.crash()
    return await (await real_dir.open()).open_log(KEY, TOPIC_ID, SMALL)


@pytest.mark.parametrize("ending", ["stop", "kill"])
@pytest.mark.parametrize("name", JUMPS)
async def test_a_start_finds_the_log_as_it_was_after_a_jump(real_dir: RealDirectory, name: str, ending: str) -> None:
    directory, log = await jumped(real_dir, name)
    append_others(log)
    if ending == "kill":  # the log start offset of DeleteRecords is in a checkpoint once a minute
        await directory.checkpoints.write()
        await directory.checkpoints.write_cleaned()
    before = await state_of(log)
    again = await started(real_dir, directory, ending)
    assert await state_of(again) == before
    assert again.log_start_offset == log.log_start_offset


@pytest.mark.parametrize("ending", ["stop", "kill"])
@pytest.mark.parametrize("name", JUMPS)
async def test_a_leader_epoch_after_a_jump_does_not_hide_the_log(
    real_dir: RealDirectory, name: str, ending: str
) -> None:
    """The epoch writes all epochs that the log remembers into their file."""
    directory, log = await jumped(real_dir, name)
    log.become_leader(5)
    append_others(log)
    whole = await every_byte(log)
    again = await started(real_dir, directory, ending)
    assert again.log_end_offset == log.log_end_offset
    assert (await every_byte(again)).endswith(whole)


@pytest.mark.parametrize("name", ANEW)
async def test_a_log_that_begins_anew_remembers_nothing(real_dir: RealDirectory, name: str) -> None:
    directory, log = await jumped(real_dir, name)
    assert log.epochs.entries == ()
    assert list(log.producers.entries()) == []
    assert not await log.reader.aborted_between(0, END)
    names = [one for one in real_dir.disk.names("topic-0") if not one.endswith(".deleted")]
    assert names == [f"{log.log_end_offset:020d}.log", EPOCHS, "partition.metadata"]
    for checkpoint in (RECOVERY_POINTS, HIGH_WATERMARKS, CLEANED, LOG_STARTS):
        assert real_dir.offsets(checkpoint).get(KEY, 0) <= min(log.log_end_offset, 30)
    await directory.truncation.truncate(KEY, END - 1)  # the leader that is followed now has lost records
    assert list(log.producers.entries()) == []


async def test_checkpoints_are_lowered_before_a_log_is_truncated(
    real_dir: RealDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint that is too high would hold for other records, which are appended after the truncation."""
    directory = await real_dir.open()
    log = await long_log(directory)
    log.delete_records(65)
    await log.retain(NOW, END)
    log.delete_records(80)
    await directory.checkpoints.write()
    assert real_dir.offsets(LOG_STARTS) == {KEY: 80}
    seen: list[int] = []
    truncate = log.shrinker.truncate

    async def looked(offset: int) -> None:
        seen.extend(real_dir.offsets(name).get(KEY, 0) for name in (RECOVERY_POINTS, HIGH_WATERMARKS, CLEANED))
        seen.append(real_dir.offsets(LOG_STARTS).get(KEY, 0))
        await directory.checkpoints.write()
        seen.append(real_dir.offsets(LOG_STARTS).get(KEY, 0))
        await truncate(offset)

    monkeypatch.setattr(type(log.shrinker), "truncate", lambda _, offset: looked(offset))
    await directory.truncation.truncate(KEY, 75)
    assert max(seen) <= 75
    append_others(log)
    real_dir.crash()
    again = await (await real_dir.open()).open_log(KEY, TOPIC_ID, SMALL)
    assert (again.log_end_offset, again.log_start_offset <= 75) == (log.log_end_offset, True)


async def test_retention_on_a_full_disk_leaves_a_log_that_can_be_opened(
    real_dir: RealDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file with the old start of the leader epochs cannot be replaced, but it can be removed."""
    directory = await real_dir.open()
    log = await long_log(directory)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(flusher, "replace", refuse)
        full.setattr(flusher, "replace_durably", refuse)
        await retained(directory, log)
    real_dir.crash()
    again = await (await real_dir.open()).open_log(KEY, TOPIC_ID, SMALL)
    assert (again.log_start_offset, again.log_end_offset) == (log.segments.every()[0].base_offset, END)
    assert again.epochs.latest == 2


async def test_a_log_that_lost_all_its_records_below_its_start_begins_anew_for_every_later_start(
    real_dir: RealDirectory,
) -> None:
    """A power failure loses the records and the new leader epochs, but not the start offset in the checkpoint."""
    directory = await real_dir.open()
    log = await long_log(directory)
    epochs = (real_dir.path / "topic-0" / EPOCHS).read_text()
    log.delete_records(END)
    await directory.checkpoints.write()
    assert real_dir.offsets(LOG_STARTS) == {KEY: END}
    real_dir.crash()
    lost = [one for one in log.segments.every() if one.base_offset >= log.recovery_point]
    for path in (real_dir.path / "topic-0").glob("*"):
        if path.name[:20] in [f"{one.base_offset:020d}" for one in lost]:
            path.unlink()
    assert lost
    (real_dir.path / "topic-0" / EPOCHS).write_text(epochs)
    for _ in range(2):
        directory = await real_dir.open()
        log = await directory.open_log(KEY, TOPIC_ID, SMALL)
        assert (log.log_start_offset, log.log_end_offset, log.epochs.entries) == (END, END, ())
        await directory.checkpoints.write()
        real_dir.crash()


@pytest.mark.parametrize("clean", [True, False])
async def test_valid_batches_are_never_dropped_because_of_leader_epochs(real_dir: RealDirectory, clean: bool) -> None:
    """The log is refused, so that it is set aside and fetched from another replica."""
    directory = await real_dir.open()
    log = await long_log(directory)
    await log.flush()
    await log.close()
    first = sorted(name for name in real_dir.disk.names("topic-0") if name.endswith(".log"))[0]
    real_dir.disk.remove(f"topic-0/{first}")
    before = real_dir.disk.names("topic-0")
    for point in (0, END) if not clean else (END,):
        with pytest.raises(LacksBegin, match="and its leader epochs at 1: the records in between are missing"):
            await Log.open(
                real_dir.disk, "topic-0", SMALL, off_loop=directory._opener, recovery_point=point, clean=clean
            )
    assert [name for name in before if name.endswith(".log")] == [
        name for name in real_dir.disk.names("topic-0") if name.endswith(".log")
    ]


async def test_a_log_that_cannot_be_synced_now_stays_in_the_checkpoint(
    real_dir: RealDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a recovery point, a start would take the log for one that was never synced, and that has deleted no
    segment. Without a log start offset, deleted records would be read again."""
    directory = await real_dir.open()
    log = await long_log(directory)
    point = log.recovery_point
    assert point > 0
    assert real_dir.offsets(LOG_STARTS) == {KEY: 1}

    async def refuse(_: Flusher) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as crowded:
        crowded.setattr(Flusher, "sync_directory", refuse)
        await directory.checkpoints.write()
        assert real_dir.offsets(RECOVERY_POINTS) == {KEY: point}
        assert real_dir.offsets(LOG_STARTS) == {KEY: 1}
        await directory.truncation.truncate(KEY, 0)
        assert real_dir.offsets(LOG_STARTS) == {KEY: 0}
    await directory.checkpoints.write()
    assert real_dir.offsets(LOG_STARTS) == {}


async def test_a_moved_log_is_found_as_it_was(tmp_path: Path) -> None:
    """The copy began anew while records were deleted, and no checkpoint of its directory has listed it before."""
    source, target = RealDirectory(tmp_path / "source"), RealDirectory(tmp_path / "target")
    before, after = await source.open(), await target.open()
    log = await long_log(before)
    copy = await after.create_copy(KEY, TOPIC_ID, SMALL, 0)
    copy.append_stored((await every_byte(log))[: next(batches(await every_byte(log))).size])
    log.delete_records(93)
    await copy.shrinker.truncate_fully_and_start_at(93)
    copy.append_stored(await every_byte(log))
    await copy.flush()
    expected = await state_of(log)
    before.release(KEY)
    copy.take_over(log)
    after.accept(KEY, TOPIC_ID)
    await before.forget_released(KEY)
    await after.settle(KEY)
    assert target.offsets(RECOVERY_POINTS) == {KEY: END}
    (target.path / "topic-0" / EPOCHS).unlink()
    target.crash()
    found = await (await target.open()).open_log(KEY, TOPIC_ID, SMALL)
    assert await state_of(found) == {**expected, "cleaned": 0, "epochs": [(2, 93)]}
