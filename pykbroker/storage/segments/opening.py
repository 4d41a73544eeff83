"""The facts that all segments of a log share: its directory, its configs, and the limit on open segments."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Protocol
from weakref import WeakSet

import msgspec
import trio

from pykbroker.storage.files.traffic import Traffic
from pykbroker.storage.segments.config import LogConfig
from pykbroker.storage.segments.segment import ActiveSegment, file_name
from pykbroker.world.disk import Disk, File

LOADED_MAX = 64
LOADING_AT_ONCE = 4
REPLAYED_BYTES_MAX = 16 << 10
"""The bytes of an active segment that a start may reread. Below this, a file that sums them up is not written."""
UNLISTED = -1
"""The recovery point of a log that a valid checkpoint does not list.

No file name in its directory is certainly durable.
"""


class Unloadable(Hashable, Protocol):
    """A segment whose file may be closed."""

    def unload(self) -> None:
        """Close the file and drop the indexes."""


class Loaded:
    """The open sealed segments of a directory, with their indexes: the `loaded_max` segments used last.

    A segment that is unloaded lends its file to the responses that still send it. While `loaded_max` files are lent,
    responses get copies. Therefore at most 3 x `loaded_max` files are open.
    """

    def __init__(self, loaded_max: int = LOADED_MAX) -> None:
        self._loaded_max = loaded_max
        self._segments: OrderedDict[Unloadable, None] = OrderedDict()
        self._lent: WeakSet[File] = WeakSet()
        self.loading = trio.CapacityLimiter(LOADING_AT_ONCE)
        """A lock held while a segment is loaded, which takes two descriptors."""

    def use(self, segment: Unloadable) -> None:
        """Keep this segment, which is about to be read, and unload the least recently used one beyond the limit."""
        self._segments[segment] = None
        self._segments.move_to_end(segment)
        while len(self._segments) > self._loaded_max:
            self._segments.popitem(last=False)[0].unload()

    def lend(self, file: File) -> None:
        """Count the file of an unloaded segment until nobody uses it any more."""
        self._lent.add(file)

    @property
    def is_crowded(self) -> bool:
        """Whether no further file should be lent."""
        return len(self._lent) >= self._loaded_max

    def forget(self, segment: Unloadable) -> None:
        """Remove a segment that was closed or deleted."""
        self._segments.pop(segment, None)


class Opening(msgspec.Struct):
    """The facts about a log before its files are opened. `config` and `directory` are always the current ones.

    `jitter` returns a random number below its argument. Records below `recovery_point` are durable. Unless the topic is
    compacted now, compaction left gaps only below `cleaned_offset`. `high_watermark` comes from the checkpoint.
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

    def active(self, base_offset: int) -> ActiveSegment:
        """Open or create the file of a segment, without examining its content."""
        file = self.disk.open(file_name(self.directory, base_offset, ".log"), create=True)
        jitter_ms = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return ActiveSegment(base_offset, file, self.config, self.jitter(jitter_ms) if jitter_ms else 0)

    def may_lack(self, end: int, base: int) -> bool:
        """Whether offsets may be missing between a segment that ends at `end` and one at `base`.

        Only compaction leaves gaps.
        """
        return end == base or (end < base and (self.config.compacted or base <= self.cleaned_offset))
