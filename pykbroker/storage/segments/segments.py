"""The segments of one log in order, and the search for an offset among them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import partial

from pykbroker.storage.files.errors import Pending, patiently
from pykbroker.storage.segments.checked import TO_THE_END
from pykbroker.storage.segments.leftovers import DELETED, INDEXES
from pykbroker.storage.segments.loading import attempt, load
from pykbroker.storage.segments.opening import Opening
from pykbroker.storage.segments.scrub import check
from pykbroker.storage.segments.sealed import SealedSegment
from pykbroker.storage.segments.segment import NO_INDEX, UNKNOWN, ActiveSegment, Segment, file_name

OWN_FILES = (".log", *INDEXES)
SUFFIXES = (*OWN_FILES, ".snapshot")


class Segments:
    """The segments of one log: sealed segments, ascending and without overlap, then the active one.

    `unsynced` has the sealed segments that are not durable yet. `deleted_files` has the files with the suffix
    `.deleted`. The owner removes them later.
    """

    __slots__ = ("_opening", "active", "deleted_files", "sealed", "unsynced")

    def __init__(
        self, opening: Opening, sealed: list[SealedSegment], unsynced: list[SealedSegment], active: ActiveSegment
    ) -> None:
        self._opening = opening
        self.sealed, self.unsynced, self.active = sealed, unsynced, active
        self.deleted_files: list[str] = []

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.sealed) + self.active.size

    @property
    def count(self) -> int:
        return len(self.sealed) + 1

    def every(self) -> list[Segment]:
        return [*self.sealed, self.active]

    def since(self, offset: int) -> Iterator[Segment]:
        """Yield the segment that may hold `offset` and all later segments, except those that compaction left empty."""
        first = bisect_right(self.sealed, offset, key=lambda one: one.base_offset) - 1
        if first + 1 < len(self.sealed) or offset < self.active.base_offset:
            for at in range(max(first, 0), len(self.sealed)):
                if self.sealed[at].may_hold(offset):
                    yield self.sealed[at]
        yield self.active

    def extent(self, offset: int, bytes_max: int, upper_offset: int, at_least_one: bool) -> tuple[Segment, int, int]:
        """Return (segment, position, size) of the whole batches to read. Pending or NotCached: the read needs the disk.

        If compaction has left no batch at or above `offset` in its segment, the next segment is searched.
        """
        for segment in self.since(offset):
            segment.require_loaded()
            look = partial(segment.extent, offset, bytes_max, upper_offset, at_least_one)
            position, size = attempt(segment, look)
            if position < segment.size:
                # The start does not verify what lies below the recovery point.
                if not segment.checked.covers(position, position + size):
                    work = partial(check, segment, self._opening.directory, position, size)
                    raise Pending(work, "check", segment, "from byte", position, "to", position + size)
                return segment, position, size
        return self.active, self.active.size, 0

    def roll(self, base_offset: int) -> ActiveSegment:
        """Seal the active segment and begin the next segment at `base_offset`."""
        following = self._opening.active(base_offset)
        # All that this process appends was verified on its way in.
        following.checked.add(0, TO_THE_END)
        following.indexed_bytes = NO_INDEX
        sealed = SealedSegment.of(self.active, self._opening)
        self.sealed.append(sealed)
        self.unsynced.append(sealed)
        self._opening.note_work()
        self.active = following
        return following

    def take_unsynced(self) -> list[SealedSegment]:
        """Remove and return the sealed segments that are not durable yet. The caller makes them durable."""
        unsynced, self.unsynced = self.unsynced, []
        return unsynced

    def keep_unsynced(self, segments: list[SealedSegment]) -> None:
        """Return segments of `take_unsynced` that could not be made durable, unless they were dropped meanwhile."""
        self.unsynced = [*(one for one in segments if not one.is_dropped), *self.unsynced]
        self._opening.note_work()

    def prove_durable(self, sealed: SealedSegment) -> None:
        """Give the segment after `sealed` an index file, if it has none. The caller syncs the directory.

        Recovery takes the file as proof that the segments before it are durable: only compaction left their gaps.
        """
        following = self.every()[self.sealed.index(sealed) + 1]
        path = file_name(self._opening.directory, following.base_offset, ".index")
        if not self._opening.disk.exists(path):
            self._opening.disk.open(path, create=True).close()
            if following is self.active:
                self.active.indexed_bytes = UNKNOWN

    def drop_oldest(self) -> None:
        """Drop the oldest segment: its files get the suffix `.deleted`."""
        going = self.sealed.pop(0)
        self._drop(going)
        self.unsynced = [segment for segment in self.unsynced if segment is not going]

    def put(self, sources: list[SealedSegment], cleaned: SealedSegment) -> None:
        """Replace these adjacent segments by one compacted segment."""
        at = self.sealed.index(sources[0])
        self.sealed[at : at + len(sources)] = [cleaned]
        for segment in sources:
            segment.is_dropped = True
            self._opening.loaded.forget(segment)
            # The producer snapshot at the begin of the compacted segment stays valid.
            self._mark_deleted(
                segment.base_offset, SUFFIXES if segment.base_offset > cleaned.base_offset else OWN_FILES
            )

    async def drop_newest(self) -> ActiveSegment:
        """Drop the active segment and make the previous one active."""
        self._drop(self.active)
        before = self.sealed.pop()
        self.unsynced = [segment for segment in self.unsynced if segment is not before]
        self._opening.loaded.forget(before)
        self.active = await self._opened(before.base_offset)
        return self.active

    async def cut(self, offset: int) -> ActiveSegment:
        """Drop the batch of the active segment that holds `offset`, and all later ones."""
        base_offset = self.active.base_offset
        aborted_cut = bool(self.active.aborted) or self._opening.disk.exists(
            file_name(self._opening.directory, base_offset, ".txnindex")
        )
        # Their entries may lie above the new end. The first opening finds the place of the cut, the second what is
        # left.
        self._mark_deleted(base_offset, INDEXES)
        whole = await self._opened(base_offset)
        whole.file.truncate(await patiently(lambda: whole.position_of(offset, whole.headers())))
        self.active = await self._opened(base_offset)
        self.active.aborted_cut = aborted_cut
        return self.active

    async def _opened(self, base_offset: int) -> ActiveSegment:
        segment = self._opening.active(base_offset)
        await load(self._opening.disk, self._opening.directory, segment)
        segment.aborted_unread = True
        segment.checked.add(segment.size, TO_THE_END)
        return segment

    def begin_anew(self, offset: int) -> ActiveSegment:
        """Drop the only segment and begin an empty segment at `offset`."""
        self._drop(self.active)
        self.active = self._opening.active(offset)
        self.active.checked.add(0, TO_THE_END)
        return self.active

    def _drop(self, segment: Segment) -> None:
        if isinstance(segment, SealedSegment):
            segment.is_dropped = True
            self._opening.loaded.forget(segment)
        self._mark_deleted(segment.base_offset, SUFFIXES)

    def _mark_deleted(self, base_offset: int, suffixes: tuple[str, ...]) -> None:
        disk = self._opening.disk
        for suffix in suffixes:
            path = file_name(self._opening.directory, base_offset, suffix)
            if disk.exists(path):
                disk.rename(path, path + DELETED)
                self.deleted_files.append(path + DELETED)
                self._opening.note_work()

    def close(self) -> None:
        """Close all files. File slices that are still being sent fail afterwards."""
        self.forget()
        for segment in self.sealed:
            segment.close()
        self.active.file.close()

    def forget(self) -> None:
        """Release all files. A file is closed when its last reader is done."""
        for segment in self.sealed:
            self._opening.loaded.forget(segment)
