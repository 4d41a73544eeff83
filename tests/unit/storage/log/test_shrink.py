"""Tests of removing records from a log: retention, DeleteRecords, and truncation of a divergent end."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pykbroker.core.errors import ApiError
from pykbroker.storage.log.log import Log
from pykbroker.world.system_disk import SystemDisk
from tests.unit.storage.logs import (
    DIRECTORY,
    NOW,
    SMALL,
    append_in_transaction,
    batch,
    every_batch,
    filled,
    marker,
    open_log,
    slowly,
)

HOUR = 3_600_000


def bases(disk: SystemDisk) -> list[int]:
    return [int(name[:20]) for name in disk.names(DIRECTORY) if name.endswith(".log")]


async def hourly(disk: SystemDisk, **config: object) -> Log:
    """Return a log of ten segments with one batch each, one hour apart. The newest batch has the timestamp NOW."""
    log = await open_log(disk, replace(SMALL, segment_bytes=len(batch()), retention_ms=-1, **config))
    for hour in range(9, -1, -1):
        log.appender.append(batch(timestamp=NOW - hour * HOUR), 0, NOW)
    return log


@pytest.mark.parametrize(
    ("config", "start"),
    [
        ({"retention_ms": 5 * HOUR}, 4),
        ({"retention_ms": 5 * HOUR - 1}, 5),
        ({"retention_bytes": 3 * len(batch())}, 7),
        ({"retention_bytes": 3 * len(batch()) - 1}, 7),
        ({"retention_bytes": 0}, 10),
        ({"retention_ms": 5 * HOUR, "retention_bytes": 3 * len(batch())}, 7),
        ({"retention_ms": 5 * HOUR, "cleanup_policy": ("compact",)}, 0),
        ({}, 0),
    ],
)
async def test_retention_deletes_whole_segments_by_time_and_size(
    disk: SystemDisk, config: dict[str, object], start: int
) -> None:
    log = await hourly(disk)
    log.configure(replace(log.config, **config))
    await log.retain(NOW, log.log_end_offset)
    assert (log.log_start_offset, log.log_end_offset) == (start, 10)
    assert bases(disk)[0] == start
    assert [one.base_offset for one in await every_batch(log)] == list(range(start, 10))
    assert log.appender.append(batch(), 0, NOW).base_offset == 10


async def test_retention_after_a_restart_reads_timestamps_from_the_time_indexes(disk: SystemDisk) -> None:
    log = await hourly(disk)
    await log.close()
    log = await open_log(disk, replace(log.config, retention_ms=5 * HOUR), clean=True)
    await log.retain(NOW, 10)
    assert log.log_start_offset == 4


async def test_retention_may_delete_all_segments(disk: SystemDisk) -> None:
    log = await hourly(disk, message_timestamp_type="CreateTime")
    log.configure(replace(log.config, retention_ms=HOUR))
    await log.retain(NOW + 2 * HOUR, 10)
    assert (log.log_start_offset, log.log_end_offset, bases(disk)) == (10, 10, [10])
    await log.retain(NOW + 4 * HOUR, 10)
    assert bases(disk) == [10]


async def test_retention_deletes_nothing_above_the_high_watermark(disk: SystemDisk) -> None:
    log = await hourly(disk)
    log.configure(replace(log.config, retention_ms=HOUR))
    await log.retain(NOW + 10 * HOUR, 3)
    assert log.log_start_offset == 3


async def test_deleted_segments_are_renamed_first_and_removed_later(disk: SystemDisk) -> None:
    log = await hourly(disk)
    await log.flush()
    log.configure(replace(log.config, retention_ms=7 * HOUR))
    await log.retain(NOW, 10)
    deleted = log.take_deleted()
    assert {name[: len(DIRECTORY) + 21] for name in deleted} == {f"{DIRECTORY}/{0:020d}", f"{DIRECTORY}/{1:020d}"}
    assert {name[len(DIRECTORY) + 21 :] for name in deleted} == {
        ".log.deleted",
        ".index.deleted",
        ".timeindex.deleted",
        ".snapshot.deleted",
    }
    assert all(disk.exists(name) for name in deleted)
    assert log.take_deleted() == []


async def test_a_segment_without_timestamps_never_expires_by_age(disk: SystemDisk) -> None:
    log = await open_log(disk, replace(SMALL, segment_bytes=len(batch()), retention_ms=0))
    for _ in range(3):
        log.appender.append(batch(timestamp=-1), 0, NOW)
    await log.retain(NOW + HOUR, 3)
    assert log.log_start_offset == 0


async def test_deleted_records_are_unreadable_at_once_and_retention_deletes_their_segments(disk: SystemDisk) -> None:
    log = await hourly(disk)
    log.become_leader(3)
    assert log.delete_records(7) == 7
    assert log.delete_records(5) == 7
    assert [one.base_offset for one in await every_batch(log)] == [7, 8, 9]
    assert log.epochs.entries == ((0, 7), (3, 10))
    assert bases(disk) == list(range(10))
    await log.retain(NOW, 10)
    assert bases(disk) == [7, 8, 9]
    assert log.flusher.listed_start is None
    with pytest.raises(ApiError):
        log.delete_records(11)
    log.configure(SMALL)
    log.appender.append(batch(b"a", b"b"), 3, NOW)
    log.delete_records(11)
    assert log.flusher.listed_start == 11
    assert log.log_start_offset == 11


@pytest.mark.parametrize("offset", range(61))
async def test_truncation_drops_the_batch_of_the_offset_and_all_later_batches(disk: SystemDisk, offset: int) -> None:
    log = await open_log(disk)
    for number in range(60):
        log.appender.append(
            batch(b"%d" % number, producer_id=4, producer_epoch=0, base_sequence=number), number // 20, NOW
        )
    await log.flush()
    await log.shrinker.truncate(offset)
    assert (log.log_end_offset, log.recovery_point) == (offset, offset)
    assert [one.base_offset for one in await every_batch(log)] == list(range(offset))
    assert log.epochs.latest == (min(offset - 1, 59) // 20 if offset else -1)
    producer = log.producers.get(4)
    assert (producer.next_sequence if producer else 0) == offset
    again = log.appender.append(batch(b"x", producer_id=4, producer_epoch=0, base_sequence=offset), 5, NOW)
    assert (again.base_offset, again.duplicate) == (offset, False)
    await log.close()
    log = await open_log(disk, clean=True)
    assert len(await every_batch(log)) == offset + 1


async def test_truncation_inside_a_batch_drops_the_whole_batch(disk: SystemDisk) -> None:
    log = await open_log(disk)
    places = filled(log, 5)
    await log.shrinker.truncate(places[3][1])
    assert log.log_end_offset == places[3][0]


async def test_truncation_restores_the_open_transactions_of_the_new_end(disk: SystemDisk) -> None:
    log = await open_log(disk)
    for number in range(40):
        append_in_transaction(log, batch(producer_id=4, producer_epoch=0, base_sequence=number, transactional=True))
        if number % 4 == 3:
            log.append_as_leader(marker(4, commit=False), 0)
    await log.shrinker.truncate(29)  # the offset of the marker
    assert log.reader.last_stable_offset(29) == 25
    found = await slowly(log.reader.aborted_transactions, 0, await log.read_patiently(0, 10_000, 29, at_least_one=True))
    assert [one.first_offset for one in found][:2] == [0, 5]


async def test_truncation_to_the_end_drops_the_leader_epochs_without_records(disk: SystemDisk) -> None:
    """A leader that appended nothing in its epoch keeps an entry that the next leader's log lacks."""
    log = await open_log(disk)
    filled(log, 5)
    log.become_leader(8)
    assert log.epochs.latest == 8
    await log.shrinker.truncate(log.log_end_offset)
    assert log.epochs.latest < 8
    assert len(await every_batch(log)) == 5


async def test_a_full_truncation_restarts_the_log_at_another_offset(disk: SystemDisk) -> None:
    log = await open_log(disk)
    filled(log, 40, producer_id=-1)
    await log.shrinker.truncate_fully_and_start_at(1000)
    assert (log.log_start_offset, log.log_end_offset, bases(disk)) == (1000, 1000, [1000])
    assert log.appender.append(batch(), 0, NOW).base_offset == 1000
    assert len(await every_batch(log)) == 1
