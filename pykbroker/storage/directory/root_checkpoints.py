"""The offset checkpoints in the root of a log directory: what the last broker left there, and what this one writes.

A topic may be made again under the name of one that was deleted. What the files say of that one is erased, durably,
before its directory goes: then what they say of a partition is said of the log that is there, also after a crash.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial

import trio

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.files.checkpoints import (
    CLEANED,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    CorruptCheckpoint,
    decode_offsets,
    encode_offsets,
)
from pykbroker.storage.files.small_files import read_disposable, replace_durably
from pykbroker.storage.segments.opening import UNLISTED
from pykbroker.world.disk import Disk

logger = logging.getLogger(__name__)

CheckpointOffsets = dict[TopicPartition, int]
NAMES = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANED)


class RootCheckpoints:
    """`left`: by file, what was found and is still so. One writer at a time, and none once the directory is left."""

    def __init__(self, disk: Disk, found: Mapping[str, CheckpointOffsets | None]) -> None:
        self.left = {name: dict(offsets or {}) for name, offsets in found.items()}
        self._lists_all = found[RECOVERY_POINTS] is not None
        self._disk = disk
        self._on_disk = {name: dict(offsets) for name, offsets in self.left.items()}
        self._forgotten: set[TopicPartition] = set()
        self._writing = trio.Lock()
        self._is_closed = False

    @classmethod
    async def read(cls, disk: Disk) -> RootCheckpoints:
        """As they are; a file that does not hold says nothing."""
        return cls(disk, {name: await _offsets(disk, name) for name in NAMES})

    def recovery_point(self, key: TopicPartition) -> int:
        """Of a log that is opened now; UNLISTED where the file holds and says nothing of it."""
        return self.left[RECOVERY_POINTS].get(key, UNLISTED if self._lists_all else 0)

    async def begin(self) -> None:
        """In a directory without partitions: say durably that none is listed."""
        if not self._lists_all:
            await self.write(RECOVERY_POINTS, dict)
            self._lists_all = True

    def forget(self, key: TopicPartition) -> None:
        """This partition is gone."""
        self._forgotten.add(key)
        for offsets in self.left.values():
            offsets.pop(key, None)

    async def erase(self, keys: Collection[TopicPartition]) -> None:
        """No file says anything of these partitions when this returns, nor will after a crash. OSError: it may."""
        for key in keys:
            self.forget(key)
        for name in NAMES:
            if not self._on_disk[name].keys().isdisjoint(keys):
                await self.write(name, partial(self._on_disk.__getitem__, name))
        self._forgotten.difference_update(keys)

    async def write(self, name: str, collect: Callable[[], CheckpointOffsets]) -> None:
        """Replace a file, durably, by what `collect` answers when it is this writer's turn."""
        async with self._writing:
            if self._is_closed:
                return
            offsets = {key: offset for key, offset in collect().items() if key not in self._forgotten}
            self._on_disk[name] = self._on_disk[name] | offsets  # either may be there until it is done
            await replace_durably(self._disk, name, encode_offsets(offsets))
            self._on_disk[name] = offsets

    def close(self) -> None:
        """Nothing is written any more: the directory may be another broker's."""
        self._is_closed = True


async def _offsets(disk: Disk, name: str) -> CheckpointOffsets | None:
    """None where nothing stands in the file, or nothing that holds."""
    try:
        content = await read_disposable(disk, name)
        return decode_offsets(content) if content else None
    except CorruptCheckpoint as damage:
        logger.warning("%s/%s does not hold and is not used: %s", disk.path, name, damage)
        return None
