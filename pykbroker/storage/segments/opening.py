"""The values that all segments of a log share: its directory, its configs, and the limit on open segments."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Protocol
from weakref import WeakSet

import msgspec
import trio

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.files.traffic import Traffic
from pykbroker.storage.segments.config import LogConfig
from pykbroker.storage.segments.segment import ActiveSegment, Segment, file_name, no_clock
from pykbroker.world.disk import Disk, File

LOADED_MAX = 64
LOADING_AT_ONCE = 4
REPLAYED_BYTES_MAX = 16 << 10
"""The number of bytes of an active segment that a start may read again.

Up to this size no index or snapshot is written for them during a run.
"""
UNLISTED = -1
"""The recovery point of a log that a valid checkpoint does not list.

Not even the names of the files in its directory are known to be durable.
"""
DueLogs = dict[TopicPartition, None]
"""The partitions of a log directory whose logs its background work visits next, in the order of their notes."""
NO_PARTITION = TopicPartition("", -1)
"""The partition of a log that no log directory works on in the background."""


class Unloadable(Hashable, Protocol):
    """A segment whose file can be closed and opened again."""

    def unload(self) -> None:
        """Close the file and drop the indexes."""


class Loaded:
    """The open sealed segments of a log directory, with their indexes: the `loaded_max` most recently used segments.

    The file of an unloaded segment stays open while a response is still being sent from it. While `loaded_max` such
    files are open, further responses get a copy of the bytes. Therefore at most 3 x `loaded_max` files are open.
    """

    def __init__(self, loaded_max: int = LOADED_MAX) -> None:
        self._loaded_max = loaded_max
        self._segments: OrderedDict[Unloadable, None] = OrderedDict()
        self._lent: WeakSet[File] = WeakSet()
        self.loading = trio.CapacityLimiter(LOADING_AT_ONCE)
        """A lock that is held while a segment is loaded, since loading takes two descriptors."""

    def use(self, segment: Unloadable) -> None:
        """Mark this segment as the most recently used, and unload the least recently used segment beyond the limit."""
        self._segments[segment] = None
        self._segments.move_to_end(segment)
        while len(self._segments) > self._loaded_max:
            self._segments.popitem(last=False)[0].unload()

    def lend(self, file: File) -> None:
        """Count the file of an unloaded segment until no response uses it."""
        self._lent.add(file)

    @property
    def is_crowded(self) -> bool:
        """Whether so many files of unloaded segments are in use that responses must get copies."""
        return len(self._lent) >= self._loaded_max

    def forget(self, segment: Unloadable) -> None:
        """Remove a segment that was closed or deleted."""
        self._segments.pop(segment, None)


class Opening(msgspec.Struct):
    """The values that are needed to open a log's files. `config` and `directory` are updated when they change.

    `jitter` returns a random number below its argument. Records below `recovery_point` are durable. If the topic is no
    longer compacted, compaction left gaps only below `cleaned_offset`. `high_watermark` comes from the checkpoint. The
    logs of a log directory share `due`.
    """

    disk: Disk
    directory: str
    config: LogConfig
    loaded: Loaded
    jitter: Callable[[int], int]
    traffic: Traffic
    recovery_point: int = 0
    log_start_offset: int = 0
    cleaned_offset: int = 0
    high_watermark: int = 0
    wall_ms: Callable[[], int] = no_clock
    key: TopicPartition = NO_PARTITION
    due: DueLogs = msgspec.field(default_factory=dict)

    def note_work(self) -> None:
        """Have the background work visit the log: a segment must be flushed, `flush.ms` runs, or files must go."""
        self.due[self.key] = None

    def active(self, base_offset: int) -> ActiveSegment:
        """Open or create the file of an active segment without reading its content."""
        file = self.disk.open(file_name(self.directory, base_offset, ".log"), create=True)
        jitter_ms = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return ActiveSegment(base_offset, file, self.config, self.jitter(jitter_ms) if jitter_ms else 0, self.wall_ms)

    def largest_timestamp(self, segment: Segment) -> int:
        """Return the largest timestamp of a dated segment, or the time of its file's last change if it has none.

        Source: Kafka's LogSegment.largestTimestamp. A timestamp before 1970 counts as none.
        """
        if segment.max_timestamp >= 0:
            return segment.max_timestamp
        return self.disk.modified_ms(file_name(self.directory, segment.base_offset, ".log"))

    def may_lack(self, end: int, base: int) -> bool:
        """Whether offsets may be missing between the end offset of one segment and the base offset of the next.

        Only compaction leaves such gaps.
        """
        return end == base or (end < base and (self.config.compacted or base <= self.cleaned_offset))
