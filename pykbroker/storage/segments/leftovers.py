"""The files that a crash leaves when it interrupts a write, a deletion or a swap of compacted segments."""

from __future__ import annotations

import logging

from pykbroker.storage.files.errors import CorruptLog
from pykbroker.storage.segments.walk import Walk
from pykbroker.world.disk import Disk

logger = logging.getLogger(__name__)
OFFSET_DIGITS = 20
CLEANED = ".cleaned"
DELETED = ".deleted"
HALF_DONE = (DELETED, CLEANED, ".tmp")
INDEXES = (".index", ".timeindex", ".txnindex")
SWAP = ".swap"


def offsets_of(names: list[str], suffix: str) -> list[int]:
    """Return the offsets of the files with this suffix, ascending."""
    stems = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return sorted(int(stem) for stem in stems if len(stem) == OFFSET_DIGITS and stem.isascii() and stem.isdigit())


async def tidy(disk: Disk, directory: str, *, clean: bool = False) -> list[str]:
    """Complete or undo the operation that a crash interrupted. Return the names of the remaining files.

    Raise CorruptLog if a swap of compacted segments cannot be completed. After a clean shutdown, also raise CorruptLog
    if an index between two segments has no `.log` file: in a compacted topic nothing else shows that a segment is
    missing.
    """
    names = disk.names(directory)
    if any(name.endswith(SWAP) for name in names):
        names = await _end_swaps(disk, directory, names)
    for name in names:
        if name.endswith(HALF_DONE):
            disk.remove(f"{directory}/{name}")
    segments = set(offsets_of(names, ".log"))
    orphans = {
        f"{base:020d}{suffix}" for suffix in INDEXES for base in offsets_of(names, suffix) if base not in segments
    }
    if clean and (
        lost := [name for name in sorted(orphans) if _was_between(segments, name) and disk.size(f"{directory}/{name}")]
    ):
        raise CorruptLog(f"{directory}: {lost[0]} exists, and the .log file of that segment is missing")
    for name in sorted(orphans):
        disk.remove(f"{directory}/{name}")
    if orphans:  # otherwise an index might reappear beside a new segment, and prove that earlier ones are durable
        await disk.sync_directory(directory)
    return [name for name in names if name not in orphans and not name.endswith(HALF_DONE)]


def _was_between(segments: set[int], name: str) -> bool:
    return bool(segments) and min(segments) < int(name.partition(".")[0]) < max(segments)


async def _end_swaps(disk: Disk, directory: str, names: list[str]) -> list[str]:
    """Complete the swaps of compacted segments that had begun to replace segments. Drop the files of all other swaps.

    Return the remaining file names. While a file still has the suffix `.cleaned`, no segment from its offset on was
    replaced.
    """
    await disk.sync_directory(directory)  # after a kill, the renames of the previous process may not be durable yet
    bare = [name.removesuffix(CLEANED) for name in names if name.endswith(CLEANED)]
    unbegun = min((base for suffix in (".log", *INDEXES) for base in offsets_of(bare, suffix)), default=None)
    for name in names:
        if unbegun is not None and name.endswith(SWAP) and int(name.partition(".")[0]) >= unbegun:
            disk.remove(f"{directory}/{name}")
    for base in offsets_of(disk.names(directory), ".log" + SWAP):
        await _complete_swap(disk, directory, base)
    for name in disk.names(directory):
        if name.endswith(SWAP):  # the .log file of this swap was renamed before the crash
            disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")
    await disk.sync_directory(directory)
    return disk.names(directory)


async def _complete_swap(disk: Disk, directory: str, base: int) -> None:
    """Replace the segments whose offsets a compacted segment covers by the compacted segment.

    The oldest of them is removed first. Raise CorruptLog if the compacted segment is damaged and the first of its
    source segments no longer exists.
    """
    file = disk.open(f"{directory}/{base:020d}.log{SWAP}")
    walk = Walk(file, 0, file.size, base, base, check_crc=True)
    while await walk.more():
        pass
    file.close()
    names = disk.names(directory)
    if walk.damage:
        _give_up_swap(disk, directory, base, names, walk.damage)
        return
    logger.info("%s: completing an interrupted compaction of offsets %d to %d", directory, base, walk.next_offset)
    for suffix in (".log", *INDEXES):
        for old in offsets_of(names, suffix):
            if base < old < walk.next_offset or (old == base and suffix == ".log"):  # indexes may be new
                disk.remove(f"{directory}/{old:020d}{suffix}")
    await disk.sync_directory(directory)
    for name in names:
        if name.endswith(SWAP) and name.startswith(f"{base:020d}."):
            disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")


def _give_up_swap(disk: Disk, directory: str, base: int, names: list[str], damage: str) -> None:
    """Drop a damaged compacted segment whose source segments all exist. Raise CorruptLog if a source is missing."""
    if f"{base:020d}.log" not in names:
        raise CorruptLog(f"{directory}: {base:020d}.log{SWAP}: {damage}")
    logger.warning("%s: an interrupted compaction of segment %d is discarded: %s", directory, base, damage)
    for name in names:
        if name.endswith(SWAP) and name.startswith(f"{base:020d}."):
            disk.remove(f"{directory}/{name}")
