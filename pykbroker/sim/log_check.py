"""The invariants of a log after a crash, for any state in which the crash may leave the disk.

1. The log is a prefix of the written batches and has all synced batches. No batch is torn. Deleted records may be
   missing at the start of the log.
2. Producers, leader epochs and open transactions match the batches in the log. The producers of deleted batches may be
   missing.
3. The log can be appended to: a duplicate batch is recognized, and the next batch follows the last one.
"""

from __future__ import annotations

from dataclasses import dataclass

from pykbroker.core.log.producers import BATCHES_REMEMBERED
from pykbroker.sim.disk import SimDisk
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.sim.volume import Volume
from pykbroker.storage.log.appender import PLACE
from pykbroker.storage.log.log import Log
from pykbroker.storage.segments.config import LogConfig
from pykbroker.storage.segments.opening import UNLISTED
from pykbroker.world.disk import FileSlice
from wire.records.batch import Batch, batches
from wire.records.builder import BatchBuilder

DIRECTORY = "t-0"
CONFIG = LogConfig(segment_bytes=30_000, index_interval_bytes=600, segment_index_bytes=160)
NOW_MS = 1_700_000_000_000
READ_BYTES = 1 << 20
NONE = -1


@dataclass(frozen=True)
class Known:
    """The expectations for a log: the stored batches that it may have, and the range of offsets that it must have.

    The range is from `deleted` to `synced`. `deleted` is the log start offset, or a higher offset if records are being
    deleted. The checkpoints and the flag for a clean shutdown have the values on disk.
    """

    written: tuple[bytes, ...] = ()
    synced: int = 0
    deleted: int = 0
    recovery_point: int = UNLISTED
    log_start_offset: int = 0
    clean: bool = False


class Violation(AssertionError):
    """An error for an invariant that a log violates after a crash."""


def require(holds: bool, otherwise: str) -> None:
    """Raise Violation unless the condition holds."""
    if not holds:
        raise Violation(otherwise)


async def opened(volume: Volume, known: Known) -> Log:
    """Recover the log on `volume` and return it."""
    return await Log.open(
        SimDisk(volume),
        DIRECTORY,
        CONFIG,
        off_loop=InlineOffLoop(),
        now_ms=NOW_MS,
        recovery_point=known.recovery_point,
        log_start_offset=known.log_start_offset,
        clean=known.clean,
    )


async def stored(log: Log) -> list[Batch]:
    """Return all batches of the log, as consumers get them."""
    found: list[Batch] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = await log.read_patiently(offset, READ_BYTES, log.log_end_offset, at_least_one=True)
        if isinstance(data, FileSlice):
            data = await data.file.read(data.offset, data.size)
        found += batches(data, strict=True)
        require(len(data) > 0 and found[-1].last_offset >= offset, f"nothing is served at offset {offset}")
        offset = found[-1].last_offset + 1
    return found


async def check_recovery(volume: Volume, known: Known) -> None:
    """Recover the log of a volume and check its invariants. Raise Violation if one does not hold."""
    log = await opened(volume, known)
    found = await stored(log)
    start, end = log.log_start_offset, log.log_end_offset
    before = below(known.written, found[0].base_offset if found else end)
    require(
        known.written[len(before) :][: len(found)] == tuple(bytes(batch.buffer) for batch in found),
        "the log is no beginning of what was written",
    )
    require(not found or end == found[-1].last_offset + 1, f"the log ends at {end}, behind its last batch")
    require(end >= known.synced, f"all below {known.synced} was synced, the log ends at {end}")
    require(
        known.log_start_offset <= start <= known.deleted,
        f"the log starts at {start}, not in {known.log_start_offset}..{known.deleted}",
    )
    _check_epochs(log, found)
    _check_producers(log, [*map(Batch.read, before), *found])
    _check_goes_on(log, found)


def below(written: tuple[bytes, ...], offset: int) -> tuple[bytes, ...]:
    """Return the batches that end below this offset."""
    return tuple(each for each in written if Batch.read(each).last_offset < offset)


def _check_epochs(log: Log, found: list[Batch]) -> None:
    for batch in found:
        epoch = log.epochs.epoch_of(max(batch.base_offset, log.log_start_offset))
        require(epoch == batch.leader_epoch, f"offset {batch.base_offset}: epoch {epoch}, not {batch.leader_epoch}")


@dataclass
class Expected:
    """The state of a producer that its batches imply. NONE stands for no value."""

    epoch: int
    last_sequence: int = NONE
    last_offset: int = NONE
    open_since: int = NONE

    def take(self, batch: Batch) -> None:
        """Update the state with one more batch."""
        if batch.producer_epoch != self.epoch:
            self.epoch, self.last_sequence, self.last_offset = batch.producer_epoch, NONE, NONE
        if batch.is_control:
            self.open_since = NONE
            return
        self.last_sequence = batch.base_sequence + batch.last_offset_delta
        self.last_offset = batch.last_offset
        if batch.is_transactional and self.open_since == NONE:
            self.open_since = batch.base_offset


def _expected(found: list[Batch]) -> dict[int, Expected]:
    """Return the expected state of each producer of these batches, by producer id."""
    expected: dict[int, Expected] = {}
    for batch in found:
        if batch.producer_id >= 0:
            expected.setdefault(batch.producer_id, Expected(batch.producer_epoch)).take(batch)
    return expected


def _check_producers(log: Log, ever_written: list[Batch]) -> None:
    begin = log.segments.every()[0].base_offset
    here, ever = _expected([one for one in ever_written if one.base_offset >= begin]), _expected(ever_written)
    actual = {
        one.producer_id: Expected(
            one.epoch, one.last_sequence, one.batches[-1].last_offset if one.batches else NONE, one.txn_first_offset
        )
        for one in log.producers.entries()
    }
    for producer in actual.keys() | ever.keys():
        one, possible = actual.get(producer), (here.get(producer), ever.get(producer))
        require(one in possible, f"producer {producer}: {one}, expected {possible}")
    since = [one.open_since for one in actual.values() if one.open_since != NONE]
    stable, start = log.reader.last_stable_offset(log.log_end_offset), log.log_start_offset
    require(
        stable == max(start, min(since, default=log.log_end_offset)), f"last stable offset {stable}, open since {since}"
    )


def _check_goes_on(log: Log, found: list[Batch]) -> None:
    for producer in log.producers.entries():
        sent = [
            batch
            for batch in found
            if not batch.is_control
            and (batch.producer_id, batch.producer_epoch) == (producer.producer_id, producer.epoch)
        ]
        for batch in sent[-BATCHES_REMEMBERED:]:
            appended = log.appender.append(as_sent(batch), batch.leader_epoch, NOW_MS)
            require(
                appended.duplicate and appended.last_offset == batch.last_offset,
                f"the batch of offset {batch.base_offset} is not known when it comes again",
            )
    end = log.log_end_offset
    builder = BatchBuilder()
    builder.append(None, b"more", (), NOW_MS)
    require(
        log.appender.append(builder.build(), log.epochs.latest, NOW_MS).base_offset == end,
        "the next batch leaves a gap",
    )


def as_sent(batch: Batch) -> bytes:
    """Return a stored batch as its producer would resend it."""
    return PLACE.pack(0, batch.batch_length, NONE) + bytes(batch.buffer[PLACE.size :])
