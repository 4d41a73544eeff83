"""What the segments of one log have in common: where they are, how they are configured, how many may be open."""

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
"""Of an active segment: so much a start reads anew rather than a file that sums it up."""
UNLISTED = -1
"""As a recovery point: the checkpoint holds and says nothing of the log. No name in its directory need be durable."""


class Unloadable(Hashable, Protocol):
    """A segment that is open and need not be."""

    def unload(self) -> None:
        """Give descriptor and memory back."""


class Loaded:
    """The sealed segments of a directory that are open, with their indexes: the `loaded_max` used last.

    A segment that is unloaded lends its file to those answers that are still sending it. While `loaded_max` files are
    lent, answers get copies, so that no more than three times as many are open at once.
    """

    def __init__(self, loaded_max: int = LOADED_MAX) -> None:
        self._loaded_max = loaded_max
        self._segments: OrderedDict[Unloadable, None] = OrderedDict()
        self._lent: WeakSet[File] = WeakSet()
        self.loading = trio.CapacityLimiter(LOADING_AT_ONCE)
        """Held while a segment is loaded, which takes two descriptors."""

    def use(self, segment: Unloadable) -> None:
        """It is read now: keep it, and let go of the one that was not read for longest."""
        self._segments[segment] = None
        self._segments.move_to_end(segment)
        while len(self._segments) > self._loaded_max:
            self._segments.popitem(last=False)[0].unload()

    def lend(self, file: File) -> None:
        """The file of a segment that is unloaded: it is open as long as anybody has it."""
        self._lent.add(file)

    @property
    def is_crowded(self) -> bool:
        """Whether so many files are lent that no other one should be."""
        return len(self._lent) >= self._loaded_max

    def forget(self, segment: Unloadable) -> None:
        """It is gone."""
        self._segments.pop(segment, None)


class Opening(msgspec.Struct):
    """What is known of a log before its files are opened; `config` and `directory` are always the current ones.

    `jitter` draws a number below its argument. All below `recovery_point` is known to be synced. What
    was compacted lies below `cleaned_offset`, or the topic is compacted now. `high_watermark`: as last checkpointed.
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
        """A segment's file, opened or created, with nothing known of what is in it."""
        file = self.disk.open(file_name(self.directory, base_offset, ".log"), create=True)
        jitter_ms = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return ActiveSegment(base_offset, file, self.config, self.jitter(jitter_ms) if jitter_ms else 0)

    def may_lack(self, end: int, base: int) -> bool:
        """Whether a segment may end at offset `end` before one of `base`. Compaction alone leaves gaps."""
        return end == base or (end < base and (self.config.compacted or base <= self.cleaned_offset))
