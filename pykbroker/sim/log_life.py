"""A random workload on one log, which records all calls on its disk.

The workload appends with several producers, rolls, flushes, begins leader epochs and writes checkpoints. Records, their
segments and their files are deleted in this order. The log is closed cleanly or the broker is killed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from random import Random

from pykbroker.core.log.verification import Verification
from pykbroker.core.producer_epoch import next_epoch
from pykbroker.sim.crash_points import PowerLoss, Recording
from pykbroker.sim.disk import SimDisk
from pykbroker.sim.log_check import DIRECTORY, NOW_MS, Known, below, check_recovery, opened, require, stored
from pykbroker.sim.power_loss import ALL_KEPT, after_power_loss
from pykbroker.sim.volume import Volume
from pykbroker.storage.log.appender import PLACE
from pykbroker.storage.log.log import Log
from wire.records.batch import Batch
from wire.records.builder import BatchBuilder
from wire.records.control import transaction_marker
from wire.sentinels import NO_OFFSET, NO_PRODUCER_ID

VALUE_BYTES = (1, 30, 100, 200, 500, 600, 1400)
LIVES_PER_SECOND_CRASH = 8
STEPS_OF_SECOND_LIFE = 12


@dataclass
class LogWriter:
    """A producer of a log. It is idempotent unless its id is -1. `last` is its newest batch as it was sent."""

    producer_id: int
    transactional: bool = False
    epoch: int = 0
    sequence: int = 0
    in_transaction: bool = False
    last: bytes = b""
    last_offset: int = NO_OFFSET


class LogLife:
    """A random workload on the log in the volume `start`, and the facts that it knows about the log."""

    def __init__(self, seed: int, start: Volume | None = None, known: Known | None = None) -> None:
        self.known = known or Known()
        self.recording = Recording(replace(self.known, clean=False), start or empty_directory())
        self._disk, self._dice = SimDisk(self.recording.volume), Random(f"log {seed}")
        first_id = self._dice.randrange(1 << 40)
        self._writers = [
            LogWriter(NO_PRODUCER_ID),
            LogWriter(first_id),
            LogWriter(first_id + 1),
            LogWriter(first_id + 2, transactional=True),
        ]
        self._end = self._epoch = 0

    async def live(self, steps: int) -> None:
        """Recover the log, then do `steps` random operations."""
        log = await opened(self.recording.volume, self.known)
        found = await stored(log)
        before = below(self.known.written, found[0].base_offset if found else log.log_end_offset)
        self._know(written=(*before, *(bytes(batch.buffer) for batch in found)), clean=False)
        self._end, self._epoch = log.log_end_offset, max(0, log.epochs.latest)
        self._lead(log)
        for _ in range(steps):
            step = self._dice.random()
            if step < 0.80:
                self._write(log, self._dice.choice(self._writers))
            elif step < 0.88:
                await log.flush()
                self._know(synced=log.log_end_offset)
            elif step < 0.91:
                await self._checkpoint(log)
            elif step < 0.95:
                await self._delete(log)
            elif step < 0.97:
                log = await self._restarted(log)
            else:
                self._lead(log)

    async def _checkpoint(self, log: Log) -> None:
        await log.flusher.sync_directory()
        self._know(recovery_point=log.recovery_point, log_start_offset=log.flusher.listed_start or 0)

    async def _delete(self, log: Log) -> None:
        """Delete records, then the segments below the log start offset, then files.

        Only the files of segments that an earlier call has deleted are removed.
        """
        for path in log.take_deleted():
            self._disk.remove(path)
        offset = self._dice.randrange(log.log_start_offset, log.log_end_offset + 1)
        self._know(deleted=offset)
        log.delete_records(offset)
        if self._dice.random() < 0.7:
            await self._checkpoint(log)
            await log.retain(NOW_MS, log.log_end_offset)

    async def _restarted(self, log: Log) -> Log:
        """Close or abandon the log and open it again. The page cache survives."""
        if self._dice.random() < 0.5:
            await log.close()
            self._know(synced=log.log_end_offset)
            await self._checkpoint(log)
            self._know(clean=True)
        known = self.known
        self._know(clean=False)
        log = await opened(self.recording.volume, known)
        self._lead(log)
        return log

    def _know(self, **news: object) -> None:
        self.known = replace(self.known, **news)  # type: ignore[arg-type]
        self.recording.note(self.known)

    def _lead(self, log: Log) -> None:
        self._epoch += self._dice.randrange(1, 3)
        log.become_leader(self._epoch)

    def _write(self, log: Log, writer: LogWriter) -> None:
        if writer.producer_id >= 0 and writer.last and self._dice.random() < 0.1:
            appended = log.appender.append(writer.last, self._epoch, NOW_MS)
            require(appended.duplicate and appended.last_offset == writer.last_offset, "a duplicate is not known")
        elif writer.in_transaction and self._dice.random() < 0.3:
            self._end_transaction(log, writer)
        else:
            writer.last = self._batch(writer)
            self._begin(writer.last)
            shown = self._known_to_coordinator(log, writer) if writer.transactional else None
            writer.last_offset = log.appender.append(writer.last, self._epoch, NOW_MS, shown).last_offset

    def _known_to_coordinator(self, log: Log, writer: LogWriter) -> Verification | None:
        sequence = Batch.read(writer.last).base_sequence
        return log.producers.begin_verification(writer.producer_id, writer.epoch, sequence, NOW_MS)

    def _end_transaction(self, log: Log, writer: LogWriter) -> None:
        marker = transaction_marker(
            commit=self._dice.random() < 0.5,
            producer_id=writer.producer_id,
            producer_epoch=writer.epoch,
            coordinator_epoch=0,
            timestamp=NOW_MS,
        )
        self._begin(marker)
        log.append_as_leader(marker, self._epoch)
        writer.in_transaction = False

    def _begin(self, data: bytes) -> None:
        """Note that the log may have this batch, in its stored form, from now on."""
        batch = Batch.read(data)
        placed = PLACE.pack(self._end, batch.batch_length, self._epoch) + data[PLACE.size :]
        self._end += batch.last_offset_delta + 1
        self._know(written=(*self.known.written, placed))

    def _batch(self, writer: LogWriter) -> bytes:
        dice, idempotent = self._dice, writer.producer_id >= 0
        if not writer.in_transaction and dice.random() < 0.05:
            writer.epoch, writer.sequence = next_epoch(writer.epoch), 0
        builder = BatchBuilder(producer_id=writer.producer_id, transactional=writer.transactional)
        if idempotent:
            builder.producer_epoch, builder.base_sequence = writer.epoch, writer.sequence
        for _ in range(dice.choice((1, 1, 2, 5))):
            builder.append(None, dice.randbytes(dice.choice(VALUE_BYTES)), (), NOW_MS - dice.randrange(1000))
        writer.sequence += builder.count
        writer.in_transaction = writer.transactional
        return builder.build()


def empty_directory() -> Volume:
    """Return a volume with only the empty directory of the log."""
    volume = Volume()
    volume.make_directory(DIRECTORY)
    return after_power_loss(volume, Random(0), ALL_KEPT)


class CrashFound(Exception):
    """An error for a failed recovery after one power loss. Its three numbers reproduce the power loss."""

    def __init__(self, seed: int, ending: PowerLoss[Known], cause: Exception) -> None:
        super().__init__(f"seed {seed}, point {ending.point} ({ending.last_call}), ending {ending.number}: {cause!r}")
        self.seed, self.point, self.number = seed, ending.point, ending.number


async def lived(seed: int, steps: int) -> LogLife:
    """Run a new workload for `steps` operations and return it."""
    life = LogLife(seed)
    await life.live(steps)
    return life


async def crashes(seed: int, steps: int, per_point: int) -> AsyncIterator[PowerLoss[Known]]:
    """Run one workload, check the recovery after every power loss at every point, and yield each power loss.

    Raise CrashFound if a recovery fails.
    """
    life = await lived(seed, steps)
    for ending in life.recording.endings(per_point, seed):
        await check_ending(seed, ending)
        yield ending


async def check_ending(seed: int, ending: PowerLoss[Known]) -> None:
    """Check the recovery after one power loss. In some cases, crash again during or soon after the recovery.

    Raise CrashFound if the recovery fails.
    """
    dice = Random(f"second {seed} {ending.point} {ending.number}")
    try:
        if dice.randrange(LIVES_PER_SECOND_CRASH):
            await check_recovery(ending.volume, ending.known)
            return
        life = LogLife(dice.randrange(1 << 30), ending.volume, ending.known)
        await life.live(STEPS_OF_SECOND_LIFE)
        point = dice.randrange(len(life.recording.calls) + 1)
        again = life.recording.ending(point, 0, seed)
        await check_recovery(again.volume, again.known)
    except Exception as cause:
        raise CrashFound(seed, ending, cause) from cause
