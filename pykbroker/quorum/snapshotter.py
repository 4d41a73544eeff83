"""The task that takes snapshots of the metadata log and deletes the snapshots that retention no longer allows.

1. A snapshot is made from a committed image, in a thread. Commits continue meanwhile.
2. The oldest snapshot is deleted, with the log before the next snapshot, if log and snapshots exceed
   metadata.max.retention.bytes, or if it is older than metadata.max.retention.ms. Before the deletion, the next
   snapshot is read and verified. At least one snapshot stays.
3. Without changes of the metadata nothing is written, neither records nor snapshots.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from math import inf
from typing import Protocol

import trio

from pykbroker.core.log.epochs import OffsetAndEpoch
from pykbroker.core.metadata.context import METADATA_FEATURE
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.metadata.record import write_record
from pykbroker.core.metadata.snapshot import snapshot_records
from pykbroker.quorum.images import Images
from pykbroker.quorum.rules import LogRules
from pykbroker.quorum.snapshot_file import QuorumRecord, encode_snapshot
from pykbroker.quorum.snapshots import Snapshots
from pykbroker.world.off_loop import OffLoop
from wire.errors import DecodeError

logger = logging.getLogger(__name__)

LOOK_INTERVAL_MS = 60_000


class SnapshottedLog(Protocol):
    """The metadata log as the snapshotter uses it: that of the controller, or the copy of an observer."""

    @property
    def log_bytes(self) -> int:
        """Return the bytes of the records since the start."""

    @property
    def journal_bytes(self) -> int:
        """Return the size of the log in bytes, without deleted segments."""

    async def begin_at(self, offset: int, now_ms: int) -> None:
        """Delete the segments whose records are all below `offset`. A snapshot contains these records."""

    async def note_synced(self, offset: int) -> None:
        """Record that all records below `offset` are durable."""


class Snapshotter:
    """The task that writes and deletes snapshots. `quorum` has the log's control records about its voters."""

    def __init__(
        self,
        driver: SnapshottedLog,
        images: Images,
        snapshots: Snapshots,
        rules: LogRules,
        off_loop: OffLoop,
        wall_ms: Callable[[], int],
        quorum: Collection[QuorumRecord] = (),
    ) -> None:
        self._driver, self._images, self._snapshots, self._rules = driver, images, snapshots, rules
        self._off_loop, self._wall_ms, self._quorum = off_loop, wall_ms, quorum
        self._bytes_before = 0
        self._end_before = max((snapshot.offset for snapshot in snapshots.ids()), default=0)
        self._due_s = inf
        self._enough = trio.Event()

    def committed(self) -> None:
        """Check after a commit whether a snapshot is due."""
        if self._driver.log_bytes - self._bytes_before >= self._rules.snapshot_bytes:
            self._enough.set()

    async def run(self) -> None:
        """Write and delete snapshots until cancelled."""
        self._wait_anew()
        self.committed()
        while True:
            try:
                if self._enough.is_set() or trio.current_time() >= self._due_s:
                    await self._take()
                await self._let_go()
            except OSError as failure:
                logger.error("snapshots of the metadata log could not be written or deleted; trying again: %s", failure)
            with trio.move_on_after(self._look_ms() / 1000):
                await self._enough.wait()

    def _look_ms(self) -> int:
        return min(LOOK_INTERVAL_MS, self._rules.snapshot_interval_ms or LOOK_INTERVAL_MS)

    def _wait_anew(self) -> None:
        interval_ms = self._rules.snapshot_interval_ms
        self._due_s = trio.current_time() + interval_ms / 1000 if interval_ms else inf
        self._enough = trio.Event()

    async def _take(self) -> None:
        image, log_bytes = self._images.committed, self._driver.log_bytes
        self._wait_anew()
        # Noted before the first await, so that all that is committed meanwhile counts for the next snapshot.
        self._bytes_before = log_bytes
        snapshot = OffsetAndEpoch(image.offset + 1, image.epoch)
        if snapshot.offset <= self._end_before:
            return
        parts = await self._off_loop(encoded, image, self._wall_ms(), tuple(self._quorum))
        await self._snapshots.write(snapshot, parts)
        await self._driver.note_synced(snapshot.offset)
        self._end_before = snapshot.offset
        logger.info(
            "took a snapshot of the metadata log up to offset %d: %d bytes",
            image.offset,
            self._snapshots.size(snapshot),
        )

    async def _let_go(self) -> None:
        """Delete the oldest snapshot, and the log before the next one, while a retention limit is exceeded."""
        while len(found := self._snapshots.ids()) > 1 and (why := await self._superfluous(found)):
            oldest, following = found[:2]
            try:
                await self._snapshots.read(following)
            except DecodeError as damage:
                self._snapshots.set_aside(following, damage)
                continue
            await self._driver.begin_at(following.offset, self._wall_ms())
            self._snapshots.remove(oldest)
            logger.info("deleted records of the metadata log, which now begins at offset %d: %s", following.offset, why)

    async def _superfluous(self, found: Sequence[OffsetAndEpoch]) -> str | None:
        """Return why the oldest of these snapshots may be deleted, or None if it must stay."""
        rules = self._rules
        total = self._driver.journal_bytes + sum(map(self._snapshots.size, found))
        if 0 <= rules.retention_bytes < total:
            return f"log and snapshots have {total} bytes, metadata.max.retention.bytes allows {rules.retention_bytes}"
        age_ms = self._wall_ms() - await self._snapshots.time_ms(found[0])
        if 0 <= rules.retention_ms < age_ms:
            return f"the oldest snapshot is {age_ms} ms old, metadata.max.retention.ms allows {rules.retention_ms}"
        return None


def encoded(image: MetadataImage, now_ms: int, quorum: Sequence[QuorumRecord]) -> list[bytes]:
    """Return the batches of a snapshot of this image."""
    level = image.features.level(METADATA_FEATURE)
    values = (write_record(record, level) for record in snapshot_records(image))
    return encode_snapshot(values, image.epoch, image.time_ms, now_ms, quorum)
