"""Sealed segments: all segments of a log except the newest one.

Sealed segments never change. Their files are opened when they are first read.

1. Valid index files are used, and the rest of the segment is indexed from the log. Afterwards the index files are
   rewritten.
2. A sealed segment that ends before the next one begins has lost records, unless the topic is compacted.
3. A segment that compaction left empty is never opened for a read.
4. A range that this process did not write is verified once before it is first sent.
"""

from __future__ import annotations

from pykbroker.storage.files.errors import CorruptLog, Pending
from pykbroker.storage.files.small_files import replace, replace_durably, warned
from pykbroker.storage.segments import txn_index
from pykbroker.storage.segments.leftovers import DELETED
from pykbroker.storage.segments.loading import load
from pykbroker.storage.segments.opening import Opening
from pykbroker.storage.segments.segment import ActiveSegment, Segment, file_name


class SealedSegment(Segment):
    """A sealed segment. Reading it raises Pending until it is loaded.

    `is_dated` is true once the largest timestamp of the segment is known. `is_dropped` is true once its files are
    renamed for deletion. `unwritten` is true until its index files are written.
    """

    __slots__ = ("_disk", "_end_offset", "_opening", "is_dated", "is_dropped", "is_loaded", "unwritten")

    def __init__(self, opening: Opening, base_offset: int, next_offset: int, size: int) -> None:
        super().__init__(base_offset, opening.config)
        self._opening, self._disk = opening, opening.disk
        self.next_offset, self.size = next_offset, size
        self.is_loaded = self.is_dropped = self.unwritten = False
        is_empty = not size and opening.may_lack(base_offset, next_offset)
        self._end_offset = base_offset if is_empty else next_offset
        """The offset after the last batch, or `next_offset` before the segment is loaded."""
        self.is_dated = is_empty
        self.aborted_unread = True

    @classmethod
    def found(cls, opening: Opening, base_offset: int, next_offset: int) -> SealedSegment:
        """Return a segment that was found in the directory, without opening its file."""
        size = opening.disk.size(file_name(opening.directory, base_offset, ".log"))
        return cls(opening, base_offset, next_offset, size)

    @classmethod
    def of(cls, active: ActiveSegment, opening: Opening) -> SealedSegment:
        active.rest()
        sealed = cls(opening, active.base_offset, active.next_offset, active.size)
        sealed.aborted, sealed.aborted_unread = active.aborted, active.aborted_unread
        sealed.aborted_cut = active.aborted_cut
        sealed.checked = active.checked
        sealed._take(active)
        sealed.unwritten = True
        return sealed

    @property
    def _directory(self) -> str:
        return self._opening.directory

    def _take(self, active: ActiveSegment) -> None:
        self.file, self.index, self.times = active.file, active.index, active.times
        self.max_timestamp, self.max_timestamp_offset = active.max_timestamp, active.max_timestamp_offset
        self._end_offset = active.next_offset
        self.is_loaded = self.is_dated = True
        self._opening.loaded.use(self)

    def __str__(self) -> str:
        return self.path(".log")

    def may_hold(self, offset: int) -> bool:
        return self._end_offset > max(offset, self.base_offset)

    def close(self) -> None:
        if self.is_loaded:
            self.file.close()

    def unload(self) -> None:
        """Close the file and drop the indexes. The file stays open while a response is still being sent from it."""
        # Until the next flush, no file has the indexes.
        if self.is_loaded and not self.unwritten:
            self.is_loaded = False
            self._opening.loaded.lend(self.file)
            del self.file, self.index, self.times

    async def load(self) -> None:
        """Open the file and read the indexes, or rebuild them."""
        async with self._opening.loaded.loading:
            if not self.is_loaded:
                await self._load()

    async def _load(self) -> None:
        path = self.path(".log" + DELETED if self.is_dropped else ".log")
        try:
            file = self._disk.open(path)
        except FileNotFoundError:
            if self.is_dropped:
                raise OSError(f"{path} was removed meanwhile") from None
            raise CorruptLog(f"{path} is missing") from None
        if self.is_dropped and file.size != self.size:
            raise OSError(f"{path} now belongs to a newer segment")
        segment = ActiveSegment(self.base_offset, file, self.config)
        loading = await load(self._disk, self._directory, segment)
        if damage := loading.damage or self._misfit(segment.next_offset):
            file.close()
            raise CorruptLog(f"{self._directory}: segment {self.base_offset}: {damage}")
        self._take(segment)
        if not loading.found_all(segment):
            self.reindexed()

    def _misfit(self, end: int) -> str | None:
        """Describe what is wrong with a segment that ends at offset `end`."""
        if self._opening.may_lack(end, self.next_offset):
            return None
        return f"ends at offset {end}, the next one begins at {self.next_offset}"

    def reindexed(self) -> None:
        if not self.unwritten:  # otherwise the flush writes the index, once the earlier segments are durable
            with warned(self.path(".index")):
                self.write()

    def write(self) -> None:
        """Write the index files, unless the segment is dropped."""
        if self.is_dropped:
            return
        for path, data in self.index_files().items():
            replace(self._disk, path, data)
        if self.unwritten:
            self.unwritten = False
            self._opening.loaded.use(self)

    def index_files(self) -> dict[str, bytes]:
        """Return the content of the offset index, and of the time index unless the segment is empty, by path."""
        files = {self.path(".index"): self.index.encode()}
        if self.size or self.file_bytes(".timeindex"):
            files[self.path(".timeindex")] = self.times.encode()
        return files

    async def write_aborted(self) -> None:
        """Write the transaction index durably. Unlike the other indexes, it looks complete when it is truncated."""
        if self.aborted and not self.aborted_unread and not self.is_dropped:
            await replace_durably(self._disk, self.path(".txnindex"), txn_index.encode(self.aborted))

    def file_bytes(self, suffix: str) -> int:
        """Return the size of the segment's file with this suffix, 0 if it does not exist."""
        path = self.path(suffix)
        return self._disk.size(path) if self._disk.exists(path) else 0

    def path(self, suffix: str) -> str:
        """Return the path of the segment's file with this suffix."""
        return file_name(self._directory, self.base_offset, suffix)

    def require_loaded(self) -> None:
        """Raise Pending until the indexes are loaded."""
        if not self.is_loaded:
            raise Pending(self.load, "load", self)
        self._opening.loaded.use(self)

    def require_date(self) -> None:
        if not self.is_dated:
            raise Pending(self.load, "load", self)
