"""The rebuilding of producers, leader epochs and aborted transactions from the batches of a log.

Checksums are verified, since a flipped bit in a marker would expose aborted records or block consumers for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from pykbroker.core.log.epochs import LeaderEpochs
from pykbroker.core.log.producers import Producers
from pykbroker.core.log.transactions import AbortedTransaction
from pykbroker.storage.files.checkpoints import EPOCHS, CorruptCheckpoint, decode_epochs
from pykbroker.storage.files.errors import CorruptLog, patiently
from pykbroker.storage.files.small_files import read_disposable
from pykbroker.storage.recovery import producer_snapshot
from pykbroker.storage.recovery.producer_snapshot import CorruptSnapshot
from pykbroker.storage.recovery.replay import recall
from pykbroker.storage.recovery.snapshot_fit import require_fit
from pykbroker.storage.segments.leftovers import offsets_of
from pykbroker.storage.segments.loading import attempt
from pykbroker.storage.segments.segment import Segment, file_name
from pykbroker.storage.segments.walk import Walk
from pykbroker.world.disk import Disk
from wire.records.batch import Batch

logger = logging.getLogger(__name__)


async def visit(segments: Sequence[Segment], start: int, end: int, visitor: Callable[[Batch], None]) -> None:
    """Call `visitor` with every batch whose base offset is from `start` to below `end`, in order.

    Raise CorruptLog if a batch is damaged.
    """
    for segment in segments:
        if not segment.may_hold(start) or segment.base_offset >= end:
            continue
        position = await patiently(partial(_position, segment, start))
        walk = Walk(segment.file, position, segment.size, segment.base_offset, segment.base_offset, check_crc=True)
        while found := await walk.more():
            for _, batch in found:
                if start <= batch.base_offset < end:
                    visitor(batch)
        if walk.damage:
            raise CorruptLog(f"segment {segment.base_offset}: {walk.damage}")


def _position(segment: Segment, offset: int) -> int:
    segment.require_loaded()
    return attempt(segment, lambda: segment.position_of(offset, segment.headers()))


async def producers_at(
    disk: Disk, directory: str, segments: Sequence[Segment], offset: int, snapshots: Sequence[int] | None = None
) -> Producers:
    """Return the producers of all records below `offset`, from the newest valid snapshot and the log after it.

    A snapshot below the start of the log is ignored, since the records in between are unknown. `snapshots` has the
    ascending offsets of the existing snapshots if the caller has listed the directory.
    """
    producers, start = Producers(), 0
    begin = segments[0].base_offset if segments else offset
    if snapshots is None:
        snapshots = offsets_of(disk.names(directory), ".snapshot")
    for taken in reversed(snapshots):
        if begin <= taken <= offset:
            try:
                content = await read_disposable(disk, file_name(directory, taken, ".snapshot"))
                found = producer_snapshot.decode(content or b"")
                await require_fit(found, segments, taken)
            except (CorruptSnapshot, IsADirectoryError) as damage:
                logger.warning(
                    "%s: the producer snapshot of offset %d is invalid and is ignored: %s", directory, taken, damage
                )
            else:
                producers, start = found, taken
                break
    await visit(segments, start, offset, lambda batch: void(recall(producers, batch)))
    return producers


async def read_aborted(disk: Disk, directory: str, segments: Sequence[Segment], segment: Segment) -> None:
    """Read the aborted transactions of `segment` from the log into `segment.aborted`.

    The .txnindex file is ignored, because it has no checksum, and because a missing file may never have been written.
    """
    producers = await producers_at(disk, directory, segments, segment.base_offset)
    found: dict[int, AbortedTransaction] = {}

    def take(batch: Batch) -> None:
        if aborted := recall(producers, batch):
            found[aborted.last_offset] = aborted

    await visit([segment], segment.base_offset, segment.next_offset, take)
    found |= {one.last_offset: one for one in segment.aborted}
    segment.aborted = [found[marker] for marker in sorted(found)]
    segment.aborted_unread = False


async def recorded_epochs(disk: Disk, directory: str, names: list[str]) -> LeaderEpochs | None:
    """Return the leader epochs from their checkpoint, or None if the file is missing in `names` or invalid."""
    if EPOCHS not in names:
        return None
    try:
        content = await read_disposable(disk, f"{directory}/{EPOCHS}")
        return None if content is None else LeaderEpochs(decode_epochs(content))
    except CorruptCheckpoint as damage:
        logger.warning("%s: %s is invalid and is rebuilt from the log: %s", directory, EPOCHS, damage)
        return None


async def rebuilt_epochs(segments: Sequence[Segment]) -> LeaderEpochs:
    """Return the leader epochs found in the batches of `segments`."""
    epochs = LeaderEpochs()
    if segments:
        await visit(
            segments,
            segments[0].base_offset,
            segments[-1].next_offset,
            lambda batch: void(epochs.assign(batch.leader_epoch, batch.base_offset)),
        )
    return epochs


def void(_: object) -> None:
    """Do nothing. The function is a visitor for `visit`."""
