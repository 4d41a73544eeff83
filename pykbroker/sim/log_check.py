"""What must hold of a log after a crash, whatever the disk has kept.

1. It is a beginning of what was written, and holds all that was synced; nothing torn is in it.
2. Producers, leader epochs and open transactions are those of the batches in it.
3. It goes on: a batch that comes again is known, and the next one stands right behind the last.
"""

from __future__ import annotations

from dataclasses import dataclass

from pykbroker.sim.disk import SimDisk
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.sim.volume import Volume
from pykbroker.storage.config import LogConfig
from pykbroker.storage.log import PLACE, Log
from pykbroker.storage.opening import UNLISTED
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
    """What may be in the log, as it stores it, and what must be: all below `synced`. `recovery_point`: as on disk."""

    written: tuple[bytes, ...] = ()
    synced: int = 0
    recovery_point: int = UNLISTED


class Violation(AssertionError):
    """Something that must not be, after a crash."""


def require(holds: bool, otherwise: str) -> None:
    """Violation, unless it holds."""
    if not holds:
        raise Violation(otherwise)


async def opened(volume: Volume, recovery_point: int) -> Log:
    """The log, recovered."""
    return await Log.open(SimDisk(volume), DIRECTORY, CONFIG, off_loop=InlineOffLoop(), now_ms=NOW_MS,
                          recovery_point=recovery_point)


async def stored(log: Log) -> list[Batch]:
    """All batches in the log, as readers get them."""
    found: list[Batch] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = await log.read_slowly(offset, READ_BYTES, log.log_end_offset, at_least_one=True)
        if isinstance(data, FileSlice):
            data = await data.file.read(data.offset, data.size)
        found += batches(data, strict=True)
        require(len(data) > 0 and found[-1].last_offset >= offset, f"nothing is served at offset {offset}")
        offset = found[-1].last_offset + 1
    return found


async def check_recovery(volume: Volume, known: Known) -> None:
    """Recover the log of a volume and judge it. Violation."""
    log = await opened(volume, known.recovery_point)
    found = await stored(log)
    end = found[-1].last_offset + 1 if found else 0
    require(b"".join(known.written).startswith(b"".join(batch.buffer for batch in found)),
            "the log is no beginning of what was written")
    require(end == log.log_end_offset, f"the last batch ends at {end}, the log at {log.log_end_offset}")
    require(end >= known.synced, f"all below {known.synced} was synced, the log ends at {end}")
    _check_epochs(log, found)
    _check_producers(log, found)
    _check_goes_on(log, found)


def _check_epochs(log: Log, found: list[Batch]) -> None:
    for batch in found:
        epoch = log.epochs.epoch_of(batch.base_offset)
        require(epoch == batch.leader_epoch, f"offset {batch.base_offset}: epoch {epoch}, not {batch.leader_epoch}")


@dataclass
class Expected:
    """A producer as its batches tell it; NONE where there is nothing."""

    epoch: int
    last_sequence: int = NONE
    last_offset: int = NONE
    open_since: int = NONE

    def take(self, batch: Batch) -> None:
        """One more batch."""
        if batch.producer_epoch != self.epoch:
            self.epoch, self.last_sequence, self.last_offset = batch.producer_epoch, NONE, NONE
        if batch.is_control:
            self.open_since = NONE
            return
        self.last_sequence = batch.base_sequence + batch.last_offset_delta
        self.last_offset = batch.last_offset
        if batch.is_transactional and self.open_since == NONE:
            self.open_since = batch.base_offset


def _check_producers(log: Log, found: list[Batch]) -> None:
    expected: dict[int, Expected] = {}
    for batch in found:
        if batch.producer_id >= 0:
            expected.setdefault(batch.producer_id, Expected(batch.producer_epoch)).take(batch)
    actual = {
        one.producer_id: Expected(one.epoch, one.last_sequence, one.batches[-1].last_offset if one.batches else NONE,
                                  one.txn_first_offset)
        for one in log.producers.entries()
    }
    require(actual == expected, f"producers {actual}, expected {expected}")
    since = [one.open_since for one in expected.values() if one.open_since != NONE]
    stable = log.last_stable_offset(log.log_end_offset)
    require(stable == min(since, default=log.log_end_offset), f"last stable offset {stable}, open since {since}")


def _check_goes_on(log: Log, found: list[Batch]) -> None:
    newest = {batch.producer_id: batch for batch in found if batch.producer_id >= 0}
    for batch in newest.values():
        if not batch.is_control:
            appended = log.append(as_sent(batch), batch.leader_epoch, NOW_MS)
            require(appended.duplicate and appended.last_offset == batch.last_offset,
                    f"the batch of offset {batch.base_offset} is not known when it comes again")
    end = log.log_end_offset
    builder = BatchBuilder()
    builder.append(None, b"more", (), NOW_MS)
    require(log.append(builder.build(), log.epochs.latest, NOW_MS).base_offset == end, "the next batch leaves a gap")


def as_sent(batch: Batch) -> bytes:
    """A stored batch, as its producer sends it again."""
    return PLACE.pack(0, batch.batch_length, NONE) + bytes(batch.buffer[PLACE.size :])
