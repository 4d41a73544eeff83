"""The log directory of each partition of this broker, and the choice of a directory for a new partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from pykbroker.core.ids import LOST, id_text, is_directory
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.files.partition_directory import PartitionDirectory

NO_DIRECTORY = b""
"""The id of no directory."""


class Places:
    """The log directory of each partition. It is read from the disks at start, and updated later.

    `ids` has the ids of `directories` in the same order. `coming` has the copies of logs whose move was interrupted
    before this start.
    """

    def __init__(self, directories: tuple[LogDirectory, ...], ids: Sequence[bytes]) -> None:
        self.directories = directories
        self.coming: dict[TopicPartition, LogDirectory] = {}
        self._by_id = dict(zip(ids, directories, strict=True))
        self._ids = {directory: directory_id for directory_id, directory in self._by_id.items()}
        self._of: dict[TopicPartition, LogDirectory] = {}
        self._sizes: Counter[LogDirectory] = Counter()
        self._twins: list[tuple[TopicPartition, LogDirectory]] = []
        self._undecided: dict[TopicPartition, tuple[LogDirectory, str]] = {}
        self.is_cordoned: Callable[[LogDirectory], bool] = never
        """A function that returns whether a directory takes no new replicas (KIP-1066)."""
        for directory in directories:
            for found in directory.partitions():
                if self._of.setdefault(found.key, directory) is not directory:
                    self._twins.append((found.key, directory))
                self._sizes[directory] += 1

    @property
    def open_logs(self) -> int:
        """Return the number of open logs in all directories, including copies. Each keeps a file descriptor open."""
        return sum(len(one.logs) + len(one.futures.logs) for one in self.directories)

    def id_of(self, directory: LogDirectory) -> bytes:
        """Return the `directory.id` of a log directory."""
        return self._ids[directory]

    async def set_aside(self, is_stray: Callable[[PartitionDirectory], bool]) -> None:
        """Rename the directories of partitions that are not assigned to this broker (stray partitions)."""
        for directory in self.directories:
            strays = [found for found in directory.partitions() if is_stray(found)]
            await directory.set_aside(strays)
            for stray in strays:
                self._forget_one(stray.key, directory)

    def _forget_one(self, key: TopicPartition, directory: LogDirectory) -> None:
        """Remove a partition that was found in this directory. Another directory may have it, too."""
        self._sizes[directory] -= 1
        twins = [other for twin, other in self._twins if twin == key and other is not directory]
        self._twins = [one for one in self._twins if one != (key, directory)]
        if self._of[key] is directory:
            del self._of[key]
            if twins:
                self._of[key] = twins[0]
                self._twins.remove((key, twins[0]))

    async def sort_twins(self, assigned: Callable[[TopicPartition], bytes | None]) -> None:
        """Rename the logs of partitions that another log directory has too, and that the metadata does not name.

        A replica that was fetched anew into another directory leaves such a log, which its directory has again after a
        repair of the disk. If the metadata names neither directory, the partition is lost.
        """
        for key, other in self._twins:
            one = self._of.get(key)
            named = self._by_id.get(assigned(key) or NO_DIRECTORY)
            if one is None or one is other:
                continue
            if named in (one, other):
                unnamed = one if named is other else other
                self._of[key] = other if unnamed is one else one
                self._sizes[unnamed] -= 1
                await unnamed.set_aside([PartitionDirectory(key, None)])
            else:
                self._undecided[key] = one, f"{other.path} has it, too: move one of them out of the log directories"

    async def sort_copies(
        self, assigned: Callable[[TopicPartition], bytes | None], is_stray: Callable[[PartitionDirectory], bool]
    ) -> None:
        """Promote, keep or rename each copy of a log that was found at start.

        A copy is promoted to the log if the metadata assigns the partition to the copy's directory and no log exists. A
        copy is added to `coming` if the log exists too. The copy of a stray partition is renamed, so that the operator
        can examine it. `assigned` returns the id of the assigned directory, or None for a stray partition.
        """
        for directory in self.directories:
            for key in list(directory.futures.names):
                try:
                    found = PartitionDirectory(key, await directory.futures.topic_id(key))
                    await self._sort(directory, key, None if is_stray(found) else assigned(key))
                except OSError as refusal:
                    directory.fail(refusal)

    async def _sort(self, directory: LogDirectory, key: TopicPartition, assigned: bytes | None) -> None:
        if assigned is None:
            directory.futures.set_aside(key)
        elif key in self._of and key not in self.coming:
            self.coming[key] = directory
        elif key in self._of:
            directory.futures.drop(key)
        elif assigned == self.id_of(directory) or not is_directory(assigned):
            await directory.promote(key)
            self.moved(key, directory)

    def moved(self, key: TopicPartition, directory: LogDirectory) -> None:
        """Record that the partition has moved to this directory."""
        self.forget(key)
        self._of[key] = directory
        self._sizes[directory] += 1

    def find(self, key: TopicPartition, assigned: bytes) -> tuple[LogDirectory, bool]:
        """Return (the directory of a partition, whether its log must be created there).

        A new partition goes to the directory that the metadata assigns, or otherwise to the directory with the fewest
        partitions.
        """
        directory = self._of.get(key)
        if directory is not None:
            return directory, False
        directory = self._by_id.get(assigned) or self.emptiest()
        self.moved(key, directory)
        return directory, True

    def emptiest(self) -> LogDirectory:
        """Return the directory with the fewest partitions, if possible one that has not failed and is not cordoned."""
        usable = [one for one in self.directories if one.failed is None] or self.directories
        open_ones = [one for one in usable if not self.is_cordoned(one)] or usable
        return min(open_ones, key=self._sizes.__getitem__)

    def lost(self, before: Iterable[bytes]) -> bool:
        """Whether a log directory that this broker registered before is missing now."""
        return any(one not in self._by_id for one in before)

    def missing(
        self, key: TopicPartition, assigned: bytes, *, lost: bool, is_only: bool
    ) -> tuple[LogDirectory, str] | None:
        """Return (the assumed directory, the reason) if a partition is lost. Return None if it exists or was empty.

        The partition must have existed when this broker last ran. `lost` is true if a log directory that this broker
        had then is missing now. `is_only` is true for the only replica of a partition. It is lost only if a checkpoint
        has an offset above 0, since no other replica could replace it.
        """
        if key in self._undecided:
            return self._undecided[key]
        if key in self._of:
            return None
        if is_directory(assigned) and assigned not in self._by_id:
            return self.directories[0], (
                f"it is assigned to the log directory {id_text(assigned)}, which is not here:"
                " mount its disk, or add it to log.dirs"
            )
        for directory in self.directories:
            if directory.root_checkpoints.may_have_had_records(key, clean=is_only or directory.clean):
                return directory, "its directory is missing, though it may have had records"
        if assigned == LOST or (lost and not is_directory(assigned)):
            return self.directories[0], (
                "it may be in a log directory that is not here now: mount its disk, or add it to log.dirs"
            )
        return None

    def forget(self, key: TopicPartition) -> None:
        """Remove a deleted partition."""
        directory = self._of.pop(key, None)
        if directory is not None:
            self._sizes[directory] -= 1


def never(_: LogDirectory) -> bool:
    """Return False: no directory is cordoned."""
    return False
