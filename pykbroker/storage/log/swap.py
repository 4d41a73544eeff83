"""The replacement of segments by the compacted segment that was made from them. A crash at any point loses no record.

At first the files of the compacted segment are durable with the suffix `.cleaned`, and the next segment has an index.
Each of these steps is durable before the next one:
1. These files get the suffix `.swap`. If one of them still has the suffix `.cleaned` at a start, the start drops them
   all, since all old segments still exist.
2. The old files get the suffix `.deleted`, the first segment's files before all others. From now on, a start completes
   the swap.
3. The suffix `.swap` is removed.
Readers use the new segment from step 2 on. Running reads of an old segment can use its files until they are removed.
"""

from __future__ import annotations

from bisect import bisect_left

from pykbroker.storage.log.flusher import Flusher
from pykbroker.storage.segments.leftovers import CLEANED, SWAP
from pykbroker.storage.segments.opening import Opening
from pykbroker.storage.segments.sealed import SealedSegment
from pykbroker.storage.segments.segments import OWN_FILES, Segments


class Interrupted(Exception):
    """An error for a compaction during which the log was truncated, lost segments, or is no longer compacted."""


def require_sources(segments: Segments, sources: list[SealedSegment]) -> None:
    """Raise Interrupted unless the log still has all these segments."""
    at = bisect_left(segments.sealed, sources[0].base_offset, key=lambda one: one.base_offset)
    if segments.sealed[at : at + len(sources)] != sources:
        raise Interrupted(f"segment {sources[0].base_offset} was changed or removed meanwhile")


async def swap(
    opening: Opening, segments: Segments, flusher: Flusher, sources: list[SealedSegment], cleaned: SealedSegment
) -> None:
    """Replace `sources` by `cleaned`, which is durable. The caller prevents other changes of segments.

    Raise ApiError if the log was deleted, and OSError if a disk operation fails. An OSError after the first rename
    takes the log offline.
    """
    segments.prove_durable(sources[-1])
    await flusher.sync_names()
    # Once these files are renamed, a start after a crash completes the swap. Before, it drops the compacted segment.
    _rename(opening, cleaned, CLEANED, SWAP)
    await flusher.sync_names()
    try:
        segments.put(sources, cleaned)
        await flusher.sync_names()
        # The first source had this name, so it must be gone first.
        _rename(opening, cleaned, SWAP, "")
        await flusher.sync_names()
    except OSError as failure:
        flusher.failed = flusher.failed or failure
        raise
    cleaned.unwritten = False
    opening.loaded.use(cleaned)


def _rename(opening: Opening, cleaned: SealedSegment, old: str, new: str) -> None:
    for suffix in OWN_FILES:
        path = cleaned.path(suffix)
        if opening.disk.exists(path + old):
            opening.disk.rename(path + old, path + new)
