"""The segment that compaction writes, in files with the suffix `.cleaned` until they are complete and durable."""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.core.compaction.compactor import Compacted
from pykbroker.storage.segments import txn_index
from pykbroker.storage.segments.leftovers import CLEANED
from pykbroker.storage.segments.opening import Opening
from pykbroker.storage.segments.sealed import SealedSegment
from pykbroker.storage.segments.segment import ActiveSegment
from pykbroker.world.disk import File


class CleanedSegment:
    """A segment that compaction makes from the segments `sources`.

    It has the base offset of the first source and the next offset of the last. `require_log` raises ApiError once the
    log was deleted, because the directory may then belong to another log.
    """

    def __init__(self, opening: Opening, sources: list[SealedSegment], require_log: Callable[[], None]) -> None:
        self.sources = sources
        self._opening, self._require_log = opening, require_log
        self._base = sources[0].base_offset
        self._active = ActiveSegment(self._base, self._created(".log"), opening.config)

    def _path(self, suffix: str) -> str:
        return f"{self._opening.directory}/{self._base:020d}{suffix}{CLEANED}"

    def _created(self, suffix: str) -> File:
        self._require_log()
        file = self._opening.disk.open(self._path(suffix), create=True)
        if file.size:
            file.truncate(0)
        return file

    def add(self, compacted: Compacted) -> None:
        """Append the batches that compaction keeps. Raise OSError if the write fails."""
        if compacted.data:
            self._active.file.append(compacted.data)
        for size, last_offset, max_timestamp in compacted.batches:
            self._active.note(size, last_offset, max_timestamp)
        self._active.aborted += compacted.aborted

    async def finish(self) -> SealedSegment:
        """Write the indexes and fsync all files. If OSError is raised, the files are not durable."""
        active = self._active
        sealed = SealedSegment.of(active, self._opening)
        sealed.next_offset = self.sources[-1].next_offset
        sealed.checked.add(0, sealed.size)
        await active.file.sync()
        await self._write(".index", sealed.index.encode())
        await self._write(".timeindex", sealed.times.encode())
        if sealed.aborted:
            await self._write(".txnindex", txn_index.encode(sealed.aborted))
        return sealed

    def keep_age(self) -> None:
        """Give the file the age of its youngest source, as Kafka does: records without timestamps are as old as it."""
        disk = self._opening.disk
        disk.set_modified_ms(self._path(".log"), disk.modified_ms(self.sources[-1].path(".log")))

    async def _write(self, suffix: str, content: bytes) -> None:
        file = self._created(suffix)
        try:
            file.append(content)
            await file.sync()
        finally:
            file.close()

    def discard(self) -> None:
        """Remove the files written so far."""
        self._active.file.close()
        for suffix in (".log", ".index", ".timeindex", ".txnindex"):
            if self._opening.disk.exists(self._path(suffix)):
                self._opening.disk.remove(self._path(suffix))
