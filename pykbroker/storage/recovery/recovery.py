"""The recovery of a log: find its segments, truncate it at the first invalid batch, and rebuild its state.

1. After a clean shutdown only the end of the active segment is read. After a crash every segment from the recovery
   point on is read, with checksums. Records below the recovery point were fsynced. They are verified when clients read
   them.
2. The first invalid batch at or above the recovery point ends the log. An invalid batch below it raises CorruptLog.
3. The log also ends at a gap between two segments, unless compaction left the gap. A gap is attributed to compaction
   below the cleaned offset or before a segment with an index, and to a power failure otherwise. An index proves that
   all earlier segments are durable: an index is written after they are, and they do not grow. It does not prove that
   its own segment is durable, which may have grown since a clean stop wrote the index. A swap of compacted segments
   begins with an index of the next segment. Kafka's segments always have an index.
4. Even after a crash, the log must reach its recovery point. If it does not, fsynced records are missing. After a clean
   shutdown the log ends exactly at its recovery point.
5. The log begins where its leader epochs begin, since the epochs are truncated durably before segments are deleted. A
   log that no checkpoint lists has deleted no segment. If the first segment begins above its leader epochs, segments
   may be missing, which raises LacksBegin: no file beside the log makes recovery drop valid batches. Only in a log
   that no checkpoint lists, the names of the first segments may be lost by a power failure: it ends at that gap.
6. After a power failure the log may end earlier than before, because records that were not fsynced are lost. The
   partition is served, and a warning names the file that proves the loss: the high watermark checkpoint, a producer
   snapshot, or the leader epochs. A kill of the broker process loses no record.
7. Bytes after the new end are removed durably before anything is written, since they might otherwise reappear after
   newer records when the power fails.
"""

from __future__ import annotations

import logging
from bisect import bisect_right

import msgspec

from pykbroker.core.log.epochs import LeaderEpochs
from pykbroker.core.log.producers import Producers
from pykbroker.storage.files import lost_writes
from pykbroker.storage.files.checkpoints import EPOCHS
from pykbroker.storage.files.errors import CorruptLog, LacksBegin
from pykbroker.storage.files.partition_directory import METADATA
from pykbroker.storage.files.small_files import replace, warned
from pykbroker.storage.recovery import producer_snapshot
from pykbroker.storage.recovery.rebuild import producers_at, rebuilt_epochs, recorded_epochs
from pykbroker.storage.recovery.replay import recall
from pykbroker.storage.segments.checked import TO_THE_END
from pykbroker.storage.segments.leftovers import INDEXES, offsets_of, tidy
from pykbroker.storage.segments.loading import load
from pykbroker.storage.segments.opening import REPLAYED_BYTES_MAX, UNLISTED, Opening
from pykbroker.storage.segments.sealed import SealedSegment
from pykbroker.storage.segments.segment import NO_INDEX, ActiveSegment, file_name
from pykbroker.storage.segments.walk import Walk
from wire.sentinels import NO_OFFSET

logger = logging.getLogger(__name__)


class RecoveredLog(msgspec.Struct):
    """The state that recovery found. `unsynced` has the sealed segments that may not be durable.

    `directory_synced` is true if a clean shutdown made the directory and its files durable and nothing has changed
    since. `epochs_durable` is the content of the leader epoch file, or None if it is unknown or may not be durable.
    `snapshot_offset` is the offset of the newest producer snapshot, or -1 without one.
    """

    active: ActiveSegment
    sealed: list[SealedSegment]
    unsynced: list[SealedSegment]
    epochs: LeaderEpochs
    producers: Producers
    log_start_offset: int
    recovery_point: int
    directory_synced: bool
    epochs_durable: tuple[tuple[int, int], ...] | None
    snapshot_offset: int = NO_OFFSET


def begin(opening: Opening) -> RecoveredLog:
    """Return the state of a new log, whose directory holds no segment."""
    start = opening.log_start_offset
    state = RecoveredLog(
        opening.active(start),
        [],
        [],
        LeaderEpochs(),
        Producers(),
        start,
        max(0, opening.recovery_point),
        directory_synced=False,
        epochs_durable=(),
    )
    state.active.checked.add(0, TO_THE_END)
    state.active.indexed_bytes = NO_INDEX
    return state


async def recover(opening: Opening, *, clean: bool) -> RecoveredLog:
    """Recover a log from its files and return its state.

    Raise CorruptLog if a batch below the recovery point is damaged or missing, and LacksBegin if a segment may be
    missing before the first one.
    """
    disk, directory = opening.disk, opening.directory
    names = await tidy(disk, directory, clean=clean)
    snapshots = offsets_of(names, ".snapshot")
    bases = offsets_of(names, ".log")
    epochs = await recorded_epochs(disk, directory, names)
    epochs_durable = () if EPOCHS not in names else epochs.entries if clean and epochs is not None else None
    if bases:
        bases = await _beginning(opening, bases, epochs, clean=clean)
    directory_synced = clean and bool(bases)
    if not bases:
        _require_all(opening, opening.log_start_offset)
        bases = [opening.log_start_offset]
    first = len(bases) - 1 if clean else max(0, bisect_right(bases, opening.recovery_point) - 1)
    sealed = [SealedSegment.found(opening, base, bases[at + 1]) for at, base in enumerate(bases[:first])]
    state = RecoveredLog(
        opening.active(bases[first]),
        sealed,
        [],
        LeaderEpochs(),
        Producers(),
        max(bases[0], opening.log_start_offset),
        opening.recovery_point,
        directory_synced,
        epochs_durable,
    )
    if clean:
        await _open_end(opening, state, names)
    known = [*sealed, state.active] if clean else sealed
    if epochs is None or epochs.epoch_of(state.log_start_offset) < 0:
        epochs = await rebuilt_epochs(known)  # the file was lost, or begins at a start offset that no checkpoint has
    state.epochs = epochs
    state.producers = await producers_at(
        disk, directory, known, state.active.next_offset if clean else bases[first], snapshots
    )
    if not clean:
        # Before the scan, which replaces the epochs, and before snapshots above the new end are removed.
        reached = {
            "the checkpoint of high watermarks": opening.high_watermark,
            "a producer snapshot": max(snapshots, default=0),
            "a leader epoch": max(state.epochs.starts, default=0),
        }
        state.epochs.truncate_end(bases[first])  # the file may have epochs of lost records; the scan adds later epochs
        await _scan(opening, state, bases[first:], max(offsets_of(names, ".index"), default=NO_INDEX))
        # The close of a short log writes no index files, unless there are some, which then are wrong.
        if not indexes_of(names, state.active.base_offset):
            state.active.indexed_bytes = NO_INDEX
        _warn_of_loss(opening, state.active.next_offset, reached)
    # Records below the log start may be gone: they were deleted.
    _require_all(opening, max(state.active.next_offset, opening.log_start_offset))
    if opening.log_start_offset > state.active.next_offset:
        await _begin_anew(opening, state, snapshots)
        snapshots = []
    state.epochs.truncate_end(state.active.next_offset)
    state.epochs.truncate_start(state.log_start_offset)
    state.recovery_point = max(0, min(state.recovery_point, state.active.next_offset))
    _settle_snapshots(opening, state, snapshots, taken=clean)
    return state


def _warn_of_loss(opening: Opening, end: int, reached: dict[str, int]) -> None:
    """Log a warning if a crash has lost records.

    `reached` has the former end offsets of the log, by the file that proves each.
    """
    witness = max(reached, key=reached.__getitem__)
    if reached[witness] > max(end, opening.log_start_offset):
        logger.warning(
            "%s/%s ends at offset %d, and %s says that it reached %d: those records are lost. A kill of the"
            " broker loses no records; a power failure loses those that were not flushed. Without a power failure,"
            " a file of this partition was removed or truncated",
            opening.disk.path,
            opening.directory,
            end,
            witness,
            reached[witness],
        )


async def _beginning(opening: Opening, bases: list[int], epochs: LeaderEpochs | None, *, clean: bool) -> list[int]:
    """Return the base offsets of the segments, or an empty list if a power failure lost the first one's name.

    Raise LacksBegin if segments may be missing before the first one.
    """
    was_synced = clean or opening.recovery_point != UNLISTED
    begin = bases[0] if was_synced else opening.log_start_offset
    if epochs is not None:
        begin = epochs.starts[0] if epochs.starts else bases[0]
    if bases[0] <= max(begin, opening.log_start_offset):
        return bases
    if was_synced:
        raise LacksBegin(
            f"{opening.directory}: the log begins at offset {bases[0]}, and its leader epochs at {begin}: the "
            f"records in between are missing; if no other replica has them, restore them, or remove {EPOCHS}"
        )
    logger.warning("%s: the records below offset %d are lost; the log is emptied", opening.directory, bases[0])
    await _drop(opening, bases)
    return []


def indexes_of(names: list[str], base_offset: int) -> list[str]:
    """Return the names of a segment's index files among the file names in its directory."""
    own = [f"{base_offset:020d}{suffix}" for suffix in INDEXES]
    return [name for name in own if name in names]


async def _open_end(opening: Opening, state: RecoveredLog, names: list[str]) -> None:
    """Find the end of the active segment after a clean shutdown.

    Raise CorruptLog if the log does not end where it was closed.
    """
    segment = state.active
    present = indexes_of(names, segment.base_offset)
    loading = await load(opening.disk, opening.directory, segment, present)
    if not present:
        segment.indexed_bytes = NO_INDEX
    elif loading.found_all(segment):
        segment.indexed_bytes = segment.size
    if 0 < opening.recovery_point < segment.next_offset:
        raise CorruptLog(
            f"{opening.directory}: ends at offset {segment.next_offset}, and was closed at "
            f"{opening.recovery_point}: its last segment belongs to another log"
        )
    segment.aborted_unread = not segment.is_empty
    if loading.damage:
        await _cut(opening, segment, loading.damage, [])
    segment.checked.add(segment.size, TO_THE_END)


def _require_all(opening: Opening, end: int) -> None:
    """Raise CorruptLog if the log ends below its recovery point."""
    if end < opening.recovery_point:
        raise CorruptLog(f"{opening.directory}: ends at offset {end}; all below {opening.recovery_point} was synced")


async def _scan(opening: Opening, state: RecoveredLog, bases: list[int], newest_index: int) -> None:
    """Read the segments at these base offsets, and verify checksums, up to the first invalid batch.

    `bases[0]` is the active segment. `newest_index` is the base offset of the newest segment with an index.
    """
    is_doubtful = lost_writes.are_noted(opening.disk)
    # This file is flushed with its directory, so that the fsync that failed may have been its own.
    if is_doubtful and opening.disk.exists(metadata := f"{opening.directory}/{METADATA}"):
        await lost_writes.write_again(file := opening.disk.open(metadata), file.size)
    if len(bases) > 1:
        await opening.disk.sync_directory(opening.directory)  # after a kill, before a written index proves the names
    for at, base in enumerate(bases):
        if at:
            if not _follows(opening, state.active, base, newest_index):
                await _drop(opening, bases[at:])
                return
            # An index that is written proves that the segments before it are durable: see 3.
            await _sync(opening, state.active)
            sealed = SealedSegment.of(state.active, opening)
            with warned(f"{opening.directory}: an index"):
                await sealed.write_aborted()
                sealed.write()
            state.sealed.append(sealed)
            state.unsynced.append(sealed)
            state.active = opening.active(base)
        damage = await _scan_segment(state)
        # After a failed fsync the kernel may take pages for written that are not. Only a new write makes it write them.
        if is_doubtful:
            await lost_writes.write_again(state.active.file, state.active.size)
        if damage:
            await _cut(opening, state.active, damage, bases[at + 1 :])
            return


async def _scan_segment(state: RecoveredLog) -> str | None:
    """Add every valid batch of the active segment to the state.

    Describe what is wrong with the next batch, if one follows.
    """
    segment = state.active
    walk = Walk(segment.file, 0, segment.file.size, segment.base_offset, segment.base_offset, check_crc=True)
    leader_epoch: int | None = None
    while found := await walk.more():
        for _, batch in found:
            segment.note_batch(batch)
            if batch.leader_epoch != leader_epoch:
                leader_epoch = batch.leader_epoch
                state.epochs.assign(leader_epoch, batch.base_offset)
            if batch.producer_id >= 0 and (aborted := recall(state.producers, batch)):
                segment.aborted.append(aborted)
    segment.checked.add(0, TO_THE_END)
    segment.rest()
    return walk.damage


def _follows(opening: Opening, before: ActiveSegment, base: int, newest_index: int) -> bool:
    """Whether the segment at offset `base` continues the segment `before`.

    Raise CorruptLog if fsynced records between the two segments are missing.
    """
    end, is_gap = before.next_offset, base <= max(opening.cleaned_offset, newest_index)
    if opening.may_lack(end, base) and (end == base or is_gap):
        return True
    if end < opening.recovery_point:
        raise CorruptLog(
            f"{opening.directory}: segment {before.base_offset} ends at offset {end}, the next one begins "
            f"at {base}; all below {opening.recovery_point} was synced"
        )
    return False


async def _cut(opening: Opening, segment: ActiveSegment, damage: str, behind: list[int]) -> None:
    """Truncate `segment` to its valid batches, durably. Raise CorruptLog if the damage is below the recovery point.

    The later segments `behind` are removed first, so that recovery finds the damage again after a crash during the
    call.
    """
    position, file = segment.size, segment.file
    if segment.next_offset < opening.recovery_point:
        raise CorruptLog(
            f"{opening.directory}: {damage}, at byte {position} of segment {segment.base_offset}; all "
            f"below offset {opening.recovery_point} was synced"
        )
    logger.warning(
        "%s: %s; the log is truncated to offset %d, and %d bytes of segment %d are dropped",
        opening.directory,
        damage,
        segment.next_offset,
        file.size - position,
        segment.base_offset,
    )
    await _drop(opening, behind)
    file.truncate(position)
    await _sync(opening, segment)


async def _sync(opening: Opening, segment: ActiveSegment) -> None:
    try:
        await segment.file.sync()
    # The next start must not believe the page cache, see `lost_writes`.
    except OSError:
        lost_writes.note(opening.disk)
        raise


async def _drop(opening: Opening, bases: list[int]) -> None:
    """Remove these segments, durably."""
    for base in bases:
        logger.warning("%s: segment %d lies after the end of the log and is dropped", opening.directory, base)
        for suffix in (".log", *INDEXES):
            if opening.disk.exists(path := file_name(opening.directory, base, suffix)):
                opening.disk.remove(path)
    if bases:
        await opening.disk.sync_directory(opening.directory)


async def _begin_anew(opening: Opening, state: RecoveredLog, snapshots: list[int]) -> None:
    """Restart the log at its start offset, if it ends below that offset since all its records were deleted.

    As after a truncation of the whole log, nothing that was remembered beside the old records is kept. The leader epoch
    file is removed first, since a later start would miss the segments from the old start of the log on.
    """
    start = opening.log_start_offset
    logger.warning(
        "%s: the log ends at offset %d, below its start offset %d; it is emptied and begins there",
        opening.directory,
        state.active.next_offset,
        start,
    )
    if opening.disk.exists(path := f"{opening.directory}/{EPOCHS}"):
        opening.disk.remove(path)
        await opening.disk.sync_directory(opening.directory)
    state.epochs.clear()
    state.epochs_durable = ()
    await _drop(opening, [*(segment.base_offset for segment in state.sealed), state.active.base_offset])
    state.active, state.sealed, state.unsynced, state.producers = opening.active(start), [], [], Producers()
    for taken in snapshots:
        opening.disk.remove(file_name(opening.directory, taken, ".snapshot"))
    state.log_start_offset = start


def _settle_snapshots(opening: Opening, state: RecoveredLog, found: list[int], *, taken: bool) -> None:
    """Remove the snapshots that are no longer needed. After a crash, write a snapshot at the end of the log.

    The newest snapshot and the snapshots at the base offset of a segment are kept.
    """
    disk, directory, end = opening.disk, opening.directory, state.active.next_offset
    bases = {state.active.base_offset, *(segment.base_offset for segment in state.sealed)}
    newest = max((offset for offset in found if offset <= end), default=NO_OFFSET)
    for offset in found:
        if offset > end or (offset not in bases and offset != newest):
            disk.remove(file_name(directory, offset, ".snapshot"))
    state.snapshot_offset = newest
    if not taken and needs_snapshot(state.active, newest):
        path = file_name(directory, end, ".snapshot")
        with warned(path):
            replace(disk, path, producer_snapshot.encode(state.producers.entries()))
            state.snapshot_offset = end


def needs_snapshot(active: ActiveSegment, newest: int) -> bool:
    """Whether the next start would have to read more than a few KiB of the active segment to rebuild the producers.

    `newest` is the offset of the newest snapshot.
    """
    if active.next_offset <= max(newest, 0):
        return False
    is_covered = newest > active.base_offset or not active.base_offset
    return not is_covered or active.size > REPLAYED_BYTES_MAX
