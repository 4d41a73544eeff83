"""Helpers for logs of compacted topics: writing transactions and tombstones, compacting, reading as a consumer."""

from __future__ import annotations

import trio

from pykbroker.core.compaction.compactor import Compactor
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.sim.worker import InlineWorkers
from pykbroker.storage.cleaner.cleaning import Cleanable, Cleaning
from pykbroker.storage.log.log import Log
from pykbroker.storage.segments.config import LogConfig
from pykbroker.storage.segments.opening import Loaded
from pykbroker.world.disk import Disk, FileSlice
from tests.unit.storage.logs import DIRECTORY, NOW, append_in_transaction, marker, slowly
from wire.records.batch import Batch, batches
from wire.records.builder import BatchBuilder
from wire.records.record import Record, records

RETENTION_MS = 1000
COMPACTED = LogConfig(
    segment_bytes=600,
    index_interval_bytes=100,
    cleanup_policy=("compact",),
    delete_retention_ms=RETENTION_MS,
    min_cleanable_dirty_ratio=0.0,
)
Pairs = list[tuple[bytes, bytes | None]]


async def opened(
    disk: Disk, config: LogConfig = COMPACTED, *, recovery_point: int = 0, cleaned_offset: int = 0, clean: bool = False
) -> Log:
    """Open the log in DIRECTORY. At most one sealed segment is loaded at a time."""
    return await Log.open(
        disk,
        DIRECTORY,
        config,
        off_loop=InlineOffLoop(),
        now_ms=NOW,
        clean=clean,
        recovery_point=recovery_point,
        cleaned_offset=cleaned_offset,
        loaded=Loaded(1),
    )


def put(log: Log, pairs: Pairs, producer_id: int = -1) -> None:
    """Append one batch; it is transactional if it has a producer id."""
    builder = BatchBuilder(producer_id=producer_id, transactional=producer_id >= 0)
    if producer_id >= 0:
        known = log.producers.get(producer_id)
        builder.producer_epoch, builder.base_sequence = 0, known.next_sequence if known else 0
    for key, value in pairs:
        builder.append(key, value, timestamp=NOW)
    if producer_id >= 0:
        append_in_transaction(log, builder.build())
    else:
        log.appender.append(builder.build(), 0, NOW)


def end(log: Log, producer_id: int, *, commit: bool) -> None:
    """End the transaction of a producer."""
    log.append_as_leader(marker(producer_id, commit=commit), 0)


async def unpaced(_bytes: int) -> None:
    """Yield to other tasks without limiting the rate of compaction."""
    await trio.lowlevel.checkpoint()


async def clean(log: Log, now_ms: int = NOW, keys_max: int = 1000, pace=unpaced) -> bool:
    """Compact the log if it is dirty; return whether it was dirty."""
    await log.flush()
    cleanable = await Cleanable.of(log, log.log_end_offset, now_ms)
    if not cleanable.segments or not cleanable.dirty_range.dirty_bytes:
        return False
    async with InlineWorkers(InlineOffLoop()).start(Compactor) as worker:
        log.cleaned_offset = await Cleaning(cleanable, worker, pace).run(now_ms, keys_max)
    return True


async def stored(log: Log, upper_offset: int | None = None) -> tuple[list[Batch], list[Record]]:
    """Return all batches, and the records that a read_committed consumer gets.

    The log may be compacted during the read.
    """
    upper = log.reader.last_stable_offset(log.log_end_offset) if upper_offset is None else upper_offset
    found, committed, offset = [], [], log.log_start_offset
    while offset < upper:
        data = await log.read_patiently(offset, 300, upper, at_least_one=True)
        aborted = await slowly(log.reader.aborted_transactions, offset, data)
        if isinstance(data, FileSlice):
            data = await data.file.read(data.offset, data.size)
        if not data:
            break
        for batch in batches(data, strict=True):
            assert batch.crc_ok()
            found.append(batch)
            void = batch.is_transactional and any(
                one.producer_id == batch.producer_id and one.first_offset <= batch.base_offset <= one.last_offset
                for one in aborted
            )
            if not batch.is_control and not void:
                committed += [one for one in records(batch, 1 << 20) if one.offset >= log.log_start_offset]
        assert found[-1].last_offset >= offset
        offset = found[-1].last_offset + 1
    return found, committed


def view(found: list[Record]) -> dict[bytes | None, bytes]:
    """Map each key to its last value."""
    last = {one.key: one.value for one in found}
    return {key: value for key, value in last.items() if value is not None}


async def last_values(log: Log) -> dict[bytes | None, bytes]:
    """Map each key to its last value, as a read_committed consumer finds it."""
    return view((await stored(log))[1])
