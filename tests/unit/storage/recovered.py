"""Helpers for tests that open a log after a crash: its files, and logs with transactions."""

from __future__ import annotations

from msgspec.structs import replace

from pykbroker.storage.log.log import Log
from pykbroker.world.system_disk import SystemDisk
from tests.unit.storage.logs import (
    DIRECTORY,
    NOW,
    SMALL,
    append_in_transaction,
    batch,
    content,
    every_byte,
    file_bytes,
    marker,
    open_log,
    slowly,
)
from wire.records.batch import batches

FIRST = f"{0:020d}.log"
ONE_SEGMENT = replace(SMALL, segment_bytes=1 << 20)


def contents(disk: SystemDisk) -> dict[str, bytes]:
    """Map the name of each file of the log to its content."""
    found = {}
    for name in disk.names(DIRECTORY):
        file = disk.open(f"{DIRECTORY}/{name}")
        found[name] = file_bytes(file)
    return found


def write_files(disk: SystemDisk, files: dict[str, bytes]) -> None:
    """Replace the files in the log's directory by exactly these files."""
    for name in disk.names(DIRECTORY):
        disk.remove(f"{DIRECTORY}/{name}")
    for name, data in files.items():
        disk.open(f"{DIRECTORY}/{name}", create=True).append(data)


async def with_transactions(disk: SystemDisk, producers: tuple[int, int] = (1, 2), rounds: int = 30) -> Log:
    """Return a closed log with idempotent producers, aborted and open transactions, several leader
    epochs and segments.
    """
    log = await open_log(disk)
    for number in range(rounds):
        log.appender.append(batch(b"%d" % number, timestamp=NOW + number * 10), number // 8, NOW)
        for producer in producers:
            append_in_transaction(
                log,
                batch(
                    b"t",
                    producer_id=producer,
                    producer_epoch=0,
                    base_sequence=number,
                    transactional=True,
                    timestamp=NOW + number * 10 + producer,
                ),
                number // 8,
            )
        if number % 4 == 3:
            log.append_as_leader(marker(producers[0], commit=number % 8 == 3), number // 8)
        if number % 9 == 8:
            log.append_as_leader(marker(producers[1], commit=False), number // 8)
    return log


async def answers(log: Log) -> dict[str, object]:
    """Return the results of all kinds of reads and queries of a log."""
    end = log.log_end_offset
    found: dict[str, object] = {
        "bytes": await every_byte(log),
        "end": end,
        "epochs": log.epochs.entries,
        "stable": log.reader.last_stable_offset(end),
        "youngest": await slowly(log.reader.max_timestamp),
    }
    for offset in range(0, end, 5):
        data = await log.read_patiently(offset, 500, end, at_least_one=True)
        assert next(batches(content(data))).last_offset >= offset
        found[f"aborted {offset}"] = await slowly(log.reader.aborted_transactions, offset, data)
    for timestamp in range(NOW - 5, NOW + 310, 7):
        found[f"since {timestamp}"] = await slowly(log.reader.offset_for_timestamp, timestamp, end)
    for producer in (1, 2):
        known = log.producers.get(producer)
        assert known is not None
        found[f"producer {producer}"] = (
            known.epoch,
            known.next_sequence,
            known.batches[-1].last_offset,
            known.txn_first_offset,
            known.coordinator_epoch,
            known.last_timestamp,
        )
    return found
