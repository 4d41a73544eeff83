"""The offset checkpoints in the root of a log directory, read at start and rewritten by this broker.

A topic may be created again under the name of a deleted topic. The offsets of the deleted topic are therefore erased
durably before its directory is renamed, and a checkpoint never holds offsets of another log.
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
    encode_header,
    encode_offset_lines,
    encode_offsets,
)
from pykbroker.storage.files.small_files import read_disposable, replace_durably
from pykbroker.storage.segments.opening import UNLISTED
from pykbroker.world.disk import Disk
from pykbroker.world.portions import AT_ONCE_MAX, portions

logger = logging.getLogger(__name__)

CheckpointOffsets = dict[TopicPartition, int]
NAMES = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANED)


class RootCheckpoints:
    """The checkpoints of a log directory. `left` has, by file, the offsets found at start that are still valid.

    Only one task writes at a time, and no task writes once the directory is closed.
    """

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
        """Read the checkpoints. An invalid file is read as an empty one."""
        return cls(disk, {name: await _offsets(disk, name) for name in NAMES})

    def recovery_point(self, key: TopicPartition) -> int:
        """Return the recovery point of a log that is about to be opened.

        Return UNLISTED if the file is valid and does not list the log.
        """
        return self.left[RECOVERY_POINTS].get(key, UNLISTED if self._lists_all else 0)

    def may_have_had_records(self, key: TopicPartition, *, clean: bool) -> bool:
        """Whether a partition whose directory is missing may have had records.

        After a clean shutdown, the recovery points are the log end offsets. After a crash, every partition that is
        listed with a high watermark may have had records.
        """
        recovery_point, high_watermark = (self.left[name].get(key) for name in (RECOVERY_POINTS, HIGH_WATERMARKS))
        return bool(recovery_point or high_watermark) or (high_watermark is not None and not clean)

    def on_disk(self, name: str) -> Mapping[TopicPartition, int]:
        """Return the offsets that were written last."""
        return self._on_disk[name]

    async def list_created(self, keys: Collection[TopicPartition]) -> None:
        """List new partitions durably, before they have records, so that a start notices a missing directory.

        The names of their directories are made durable first. Raise OSError.
        """
        await self._disk.sync_directory("")
        await self.write(HIGH_WATERMARKS, lambda: dict.fromkeys(keys, 0) | self._on_disk[HIGH_WATERMARKS])

    async def begin(self) -> None:
        """Write a durable checkpoint without entries, for a directory that has no partitions."""
        if not self._lists_all:
            await self.write(RECOVERY_POINTS, dict)
            self._lists_all = True

    def forget(self, key: TopicPartition) -> None:
        """Remove the offsets of a deleted partition from memory."""
        self._forgotten.add(key)
        for offsets in self.left.values():
            offsets.pop(key, None)

    async def erase(self, keys: Collection[TopicPartition]) -> None:
        """Erase all offsets of these partitions, durably. If OSError is raised, the offsets may still be there."""
        for key in keys:
            self.forget(key)
        for name in NAMES:
            if not self._on_disk[name].keys().isdisjoint(keys):
                await self.write(name, partial(self._on_disk.__getitem__, name))
        self._forgotten.difference_update(keys)

    async def lower(self, name: str, key: TopicPartition, offset: int) -> None:
        """Lower the offset of a partition in a checkpoint to `offset` at most, durably. Raise OSError."""
        if self._on_disk[name].get(key, offset) > offset:
            await self.write(
                name, lambda: {one: min(was, offset) if one == key else was for one, was in self._on_disk[name].items()}
            )

    async def write(self, name: str, collect: Callable[[], CheckpointOffsets]) -> None:
        """Replace a checkpoint durably.

        `collect` returns its offsets, and is called after all earlier writes have ended.
        """
        async with self._writing:
            if self._is_closed:
                return
            offsets = {key: offset for key, offset in collect().items() if key not in self._forgotten}
            self._on_disk[name] = self._on_disk[name] | offsets  # a crash may leave either content
            await replace_durably(self._disk, name, await encode_patiently(offsets))
            self._on_disk[name] = offsets

    def close(self) -> None:
        """Refuse all further writes, since another broker may lock the directory from now on."""
        self._is_closed = True


async def encode_patiently(offsets: CheckpointOffsets) -> bytes:
    """Return the content of a checkpoint, and let other tasks run between portions of many entries."""
    if len(offsets) <= AT_ONCE_MAX:
        return encode_offsets(offsets)
    await trio.lowlevel.checkpoint()
    content = [encode_header(len(offsets))]
    for few in portions(sorted(offsets.items())):
        await trio.lowlevel.checkpoint()
        content.append(encode_offset_lines(few))
    return b"".join(content)


async def _offsets(disk: Disk, name: str) -> CheckpointOffsets | None:
    """Return the offsets in a checkpoint, or None if the file is missing, empty or invalid."""
    try:
        content = await read_disposable(disk, name)
        return decode_offsets(content) if content else None
    except CorruptCheckpoint as damage:
        logger.warning("%s/%s is invalid and is ignored: %s", disk.path, name, damage)
        return None
