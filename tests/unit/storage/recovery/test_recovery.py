"""Tests of recovery after a crash: it keeps fsynced records, truncates a torn tail, and rebuilds
damaged other files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from pykbroker.storage.files.errors import CorruptLog, Pending
from pykbroker.storage.log.log import Log
from pykbroker.storage.segments.headers import Headers
from pykbroker.storage.segments.opening import Loaded
from pykbroker.storage.segments.sealed import SealedSegment
from pykbroker.world.disk import NotCached
from pykbroker.world.system_disk import SystemDisk
from tests.unit.storage.logs import (
    DIRECTORY,
    NOW,
    SMALL,
    append_in_transaction,
    batch,
    content,
    every_byte,
    filled,
    marker,
    open_log,
    slowly,
)
from tests.unit.storage.recovered import FIRST, ONE_SEGMENT, answers, contents, with_transactions, write_files
from wire.records.batch import HEADER_BYTES, batches
from wire.records.builder import BatchBuilder

BATCHES = 12


HARM: dict[str, Callable[[bytes, int], bytes | None]] = {
    "cut": lambda data, size: data[:size],
    "emptied": lambda data, size: b"",
    "gone": lambda data, size: None,
}


async def crashed(disk: SystemDisk) -> tuple[bytes, bytes, int]:
    """Return the bytes of a one-segment log that was not closed, the fsynced part of them, and the log end offset."""
    log = await open_log(disk, ONE_SEGMENT)
    filled(log, BATCHES)
    await log.flush()
    synced, point = await every_byte(log), log.log_end_offset
    filled(log, 4)
    return await every_byte(log), synced, point


def torn(data: bytes, keep: int) -> Iterator[bytes]:
    """Yield the contents that a crash may leave in a file whose first `keep` bytes were fsynced."""
    for cut in range(keep, len(data) + 1):
        yield data[:cut]
        yield data[:cut] + bytes(len(data) - cut)
    for at in range(keep, len(data)):
        yield data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]


async def test_a_torn_tail_is_truncated_and_fsynced_records_stay(disk: SystemDisk) -> None:
    """Truncate, zero or flip the tail at every byte above the recovery point."""
    whole, synced, point = await crashed(disk)
    name = f"{0:020d}.log"
    for tail in torn(whole, len(synced)):
        write_files(disk, {name: tail})
        log = await open_log(disk, ONE_SEGMENT, recovery_point=point)
        found = await every_byte(log)
        assert found.startswith(synced)
        assert covered(whole).startswith(covered(found))
        assert log.appender.append(batch(b"next"), 0, NOW).base_offset == log.log_end_offset - 1
        log.abandon()


def covered(data: bytes) -> bytes:
    """Return the bytes of each batch that its checksum covers, which are all but the leader epoch."""
    return b"".join(bytes(one.buffer[21:]) for one in batches(data, strict=True))


@pytest.mark.parametrize("zeros", range(1, 2 * HEADER_BYTES))
async def test_zeros_after_the_last_batch_are_truncated(disk: SystemDisk, zeros: int) -> None:
    """A lost sector leaves zeros, perhaps fewer than a batch header has bytes."""
    whole, _, point = await crashed(disk)
    write_files(disk, {f"{0:020d}.log": whole + bytes(zeros)})
    assert covered(await every_byte(await open_log(disk, ONE_SEGMENT, recovery_point=point))) == covered(whole)


async def test_damage_below_the_recovery_point_is_corrupt_log_and_changes_no_file(disk: SystemDisk) -> None:
    log = await open_log(disk, ONE_SEGMENT)
    filled(log, BATCHES)
    files, name = contents(disk), f"{0:020d}.log"
    for at in (30, len(files[name]) // 2, len(files[name]) - 1):
        flipped = files[name][:at] + bytes([files[name][at] ^ 4]) + files[name][at + 1 :]
        write_files(disk, {name: flipped})
        with pytest.raises(CorruptLog):
            await open_log(disk, ONE_SEGMENT, recovery_point=log.log_end_offset)
        assert contents(disk)[name] == flipped


async def test_segments_after_a_torn_segment_are_dropped(disk: SystemDisk) -> None:
    log = await open_log(disk)
    filled(log, 40)
    files = contents(disk)
    names = sorted(name for name in files if name.endswith(".log"))
    write_files(disk, files | {names[1]: files[names[1]][:-1]})
    log = await open_log(disk)
    found = await every_byte(log)
    assert found == (files[names[0]] + files[names[1]])[: len(found)]
    assert int(names[1][:20]) < log.log_end_offset < int(names[2][:20])
    assert names[2] not in disk.names(DIRECTORY)


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("which", ["only", "last"])
async def test_a_cleanly_closed_log_that_ends_too_early_is_not_served(disk: SystemDisk, which: str, harm: str) -> None:
    """An end between two batches counts as well, since the missing offsets would be assigned again."""
    config = ONE_SEGMENT if which == "only" else SMALL
    log = await open_log(disk, config)
    filled(log, 2 * BATCHES)
    await log.close()
    files = contents(disk)
    name = max(name for name in files if name.endswith(".log"))
    harmed = dict(files)
    del harmed[name]
    if (data := HARM[harm](files[name], next(batches(files[name])).size)) is not None:
        harmed[name] = data
    write_files(disk, harmed)
    with pytest.raises(CorruptLog, match="synced"):
        await open_log(disk, config, clean=True, recovery_point=log.log_end_offset)
    assert contents(disk).get(name) == data


async def test_a_cleanly_closed_log_that_ends_too_late_is_not_served(disk: SystemDisk) -> None:
    log = await open_log(disk, ONE_SEGMENT)
    filled(log, BATCHES)
    closed_at = log.log_end_offset
    filled(log, BATCHES)
    await log.close()
    with pytest.raises(CorruptLog, match=f"and was closed at {closed_at}: its last segment belongs to another log"):
        await open_log(disk, ONE_SEGMENT, clean=True, recovery_point=closed_at)


async def test_segments_below_the_log_start_offset_may_be_missing(disk: SystemDisk) -> None:
    log = await open_log(disk, clean=True, recovery_point=7, log_start_offset=7)
    assert (log.log_start_offset, log.log_end_offset) == (7, 7)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("harm", HARM)
async def test_a_sealed_segment_that_ends_before_the_next_one_begins_is_corrupt_log(
    disk: SystemDisk, harm: str, clean: bool
) -> None:
    log = await open_log(disk)
    filled(log, 40)
    await log.close()
    files = contents(disk)
    name = sorted(name for name in files if name.endswith(".log"))[1]
    harmed = {one: data for one, data in files.items() if one[:20] != name[:20]}
    if (data := HARM[harm](files[name], next(batches(files[name])).size)) is not None:
        harmed[name] = data
    write_files(disk, harmed)
    log = await open_log(disk, clean=clean, recovery_point=log.log_end_offset)
    with pytest.raises(CorruptLog, match="the next one begins"):
        await every_byte(log)
    compacted = await open_log(
        disk, replace(SMALL, cleanup_policy=("compact",)), clean=clean, recovery_point=log.log_end_offset
    )
    assert len(await every_byte(compacted)) < sum(len(one) for at, one in files.items() if at.endswith(".log"))


async def test_a_missing_log_file_of_a_compacted_topic_is_detected(disk: SystemDisk) -> None:
    log = await open_log(disk, config := replace(SMALL, cleanup_policy=("compact",)))
    filled(log, 40)
    await log.close()
    gone = sorted(name for name in contents(disk) if name.endswith(".log"))[1]
    disk.remove(f"{DIRECTORY}/{gone}")
    before = contents(disk)
    with pytest.raises(CorruptLog, match="exists, and the .log file of that segment is missing"):
        await open_log(disk, config, clean=True, recovery_point=log.log_end_offset)
    assert contents(disk) == before


async def test_above_the_recovery_point_a_gap_between_segments_ends_the_log(disk: SystemDisk) -> None:
    """A crash before the fsync of the sealed segment loses its tail, but the name of the next segment is durable."""
    log = await open_log(disk)
    filled(log, 40)
    files = contents(disk)
    first, second, *_ = sorted(name for name in files if name.endswith(".log"))
    kept = files[first][: next(batches(files[first])).size]
    for following in (b"", files[second]):
        write_files(disk, files | {first: kept, second: following})
        log = await open_log(disk)
        assert (await every_byte(log), log.log_end_offset) == (kept, 1)
        assert second not in disk.names(DIRECTORY)
    write_files(disk, files | {first: kept})
    with pytest.raises(CorruptLog, match="synced"):
        await open_log(disk, recovery_point=2)


async def test_a_segment_that_grew_after_its_index_was_written_may_not_end_in_a_gap(disk: SystemDisk) -> None:
    """A clean shutdown writes the index of the active segment. Records that are appended after the next start may be
    lost.
    """
    compacted = replace(SMALL, cleanup_policy=("compact",))
    log = await open_log(disk, compacted)
    filled(log, 2)
    await log.close()
    kept, point = contents(disk)[FIRST], log.log_end_offset
    log = await open_log(disk, compacted, clean=True, recovery_point=point)
    filled(log, 20)
    assert log.segments.unsynced
    write_files(disk, contents(disk) | {FIRST: kept})
    log = await open_log(disk, compacted, recovery_point=point)
    assert (await every_byte(log), log.log_end_offset) == (kept, point)


async def test_recovery_keeps_few_files_open(disk: SystemDisk) -> None:
    """The limit also applies to a log without a recovery point."""
    filled(await open_log(disk), 100)
    log = await open_log(disk, loaded=Loaded(3))
    assert len(log.segments.sealed) > 5
    assert sum(one.is_loaded for one in log.segments.sealed) == 3


async def with_two_epochs(disk: SystemDisk) -> Log:
    """Return a log of 40 records in several segments that was not closed: epoch 2 up to offset 29, then epoch 3."""
    log = await open_log(disk)
    log.become_leader(2)
    for number in range(40):
        if number == 30:
            log.become_leader(3)
        log.appender.append(batch(b"%d" % number), log.epochs.latest, NOW)
    return log


async def test_recovery_keeps_the_epochs_of_the_checkpoint_file(disk: SystemDisk) -> None:
    """One epoch spans the first scanned segment, and the file has a later epoch."""
    log = await with_two_epochs(disk)
    assert log.segments.unsynced
    for point in (0, 20, 40):
        assert (await open_log(disk, recovery_point=point)).epochs.entries == ((2, 0), (3, 30))


async def test_recovery_ignores_checkpointed_epochs_of_a_lost_tail(disk: SystemDisk) -> None:
    await with_two_epochs(disk)
    write_files(disk, contents(disk) | {"leader-epoch-checkpoint": b"0\n3\n2 0\n3 30\n4 35\n"})
    for point in (0, 30):
        assert (await open_log(disk, recovery_point=point)).epochs.entries == ((2, 0), (3, 30))


@pytest.mark.parametrize("clean", [True, False])
async def test_epochs_that_start_above_the_log_start_offset_are_completed_from_the_log(
    disk: SystemDisk, clean: bool
) -> None:
    """Epochs were removed for deleted records, and the power failed before the log start offset was checkpointed."""
    log = await open_log(disk)
    for number in range(60):
        log.appender.append(batch(b"%d" % number), number // 20, NOW)
    log.delete_records(30)
    await log.close()
    log = await open_log(disk, clean=clean, recovery_point=60 if clean else 50)
    assert (log.log_start_offset, log.epochs.entries) == (0, ((0, 0), (1, 20), (2, 40)))


@pytest.mark.parametrize("clean", [True, False])
async def test_a_producer_snapshot_below_the_log_start_is_ignored(disk: SystemDisk, clean: bool) -> None:
    """The records in between are unknown. Forgetting a producer is better than refusing its next batch."""
    log = await open_log(disk)
    for number in range(60):
        log.appender.append(
            batch(b"%d" % number, producer_id=1 + number // 20, producer_epoch=0, base_sequence=number % 20), 0, NOW
        )
    await log.close()
    files = contents(disk)
    first, second, third, *_ = sorted(name[:20] for name in files if name.endswith(".log"))
    gone = {name for name in files if name[:20] in (first, second) and not name.endswith(".snapshot")}
    harmed = {
        name: b"x" if name.endswith(".snapshot") and name[:20] > second else data
        for name, data in files.items()
        if name not in gone
    }
    write_files(disk, harmed)
    log = await open_log(disk, clean=clean, recovery_point=60, log_start_offset=int(third))
    assert 20 <= int(third) < 40
    assert {one.producer_id: one.next_sequence for one in log.producers.entries()} == {2: 20, 3: 20}


@pytest.mark.parametrize("snapshot", ["kept", "lost"])
async def test_a_flipped_bit_in_a_marker_is_detected(disk: SystemDisk, snapshot: str) -> None:
    """The flipped bit would commit aborted records, or leave the transaction open for ever."""
    log = await open_log(disk, ONE_SEGMENT)
    append_in_transaction(log, batch(b"t", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True))
    begin = log.size_bytes
    log.append_as_leader(marker(1, commit=False), 0)
    stable = log.reader.last_stable_offset(2)
    await log.close()
    files, name = contents(disk), f"{0:020d}.log"

    async def opened_and_asked(recovery_point: int) -> None:
        log = await open_log(disk, ONE_SEGMENT, clean=True, recovery_point=recovery_point)
        await slowly(log.reader.aborted_transactions, 0, files[name])

    for at in range(begin + HEADER_BYTES, len(files[name])):
        for bit in range(8):
            flipped = files[name][:at] + bytes([files[name][at] ^ 1 << bit]) + files[name][at + 1 :]
            write_files(
                disk,
                {one: data for one, data in files.items() if snapshot == "kept" or not one.endswith("snapshot")}
                | {name: flipped},
            )
            with pytest.raises(CorruptLog):
                await opened_and_asked(stable)


@pytest.mark.parametrize(("key", "value"), [(b"\0", b"\0" * 6), (b"\0\0\0\1", b"\0")])
@pytest.mark.parametrize("clean", [True, False])
async def test_an_invalid_control_batch_is_corrupt_log(disk: SystemDisk, clean: bool, key: bytes, value: bytes) -> None:
    builder = BatchBuilder(producer_id=1, producer_epoch=0, transactional=True, control=True)
    builder.append(key, value, timestamp=NOW)
    disk.make_directory(DIRECTORY)
    disk.open(f"{DIRECTORY}/{0:020d}.log", create=True).append(builder.build())
    with pytest.raises(CorruptLog, match="control batch"):
        await open_log(disk, clean=clean)


async def test_a_segment_may_be_closed_while_its_log_is_read(disk: SystemDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a reader waits, other segments are loaded, so the reader must load its segment again."""
    log = await with_transactions(disk)
    expected = (await answers(log))["aborted 0"]
    await log.close()
    find, left = SealedSegment.position_of, [True]

    def closing(segment: SealedSegment, offset: int, headers: Headers) -> int:
        async def close() -> None:
            segment.unload()

        if left:
            left.pop()
            raise Pending(close, "close")
        return find(segment, offset, headers)

    monkeypatch.setattr(SealedSegment, "position_of", closing)
    log = await open_log(disk, clean=True)
    data = await log.read_patiently(0, 500, log.log_end_offset, at_least_one=True)
    assert await slowly(log.reader.aborted_transactions, 0, data) == expected
    left.append(True)
    assert await slowly(log.reader.offset_for_timestamp, NOW, log.log_end_offset)


async def test_a_read_waits_for_a_segment_that_was_closed(disk: SystemDisk) -> None:
    log = await open_log(disk)
    filled(log, 40)
    await log.close()
    log = await open_log(disk, clean=True, loaded=Loaded(1))
    await attempted(log, 0).fetch()
    check = attempted(log, 0)
    await attempted(log, log.log_end_offset // 2).fetch()
    await check.fetch()
    assert content(await log.read_patiently(0, 100, log.log_end_offset, at_least_one=True))


def attempted(log: Log, offset: int) -> NotCached:
    """Return the error of a read that must wait for the disk."""
    with pytest.raises(NotCached) as missing:
        log.reader.read(offset, 100, log.log_end_offset, at_least_one=True)
    return missing.value
