"""In which log directory each partition of this broker lies, and where a new one goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from pykbroker.core.errors import StartError
from pykbroker.core.metadata.ids import is_directory
from pykbroker.storage.log_directory import LogDirectory
from pykbroker.storage.partition_directory import PartitionDirectory


class Places:
    """As the directories were found at start, and as partitions came and went since. `ids` are in their order."""

    def __init__(self, directories: tuple[LogDirectory, ...], ids: Sequence[bytes]) -> None:
        self._directories = directories
        self._by_id = dict(zip(ids, directories, strict=True))
        self._ids = {directory: directory_id for directory_id, directory in self._by_id.items()}
        self._of: dict[tuple[str, int], LogDirectory] = {}
        for directory in directories:
            for found in directory.partitions():
                twin = self._of.setdefault((found.topic, found.partition), directory)
                if twin is not directory:
                    raise StartError(
                        f"{found.topic}-{found.partition} lies in {twin.path} and in {directory.path}: move one of them"
                        " out of the log directories"
                    )

    def id_of(self, directory: LogDirectory) -> bytes:
        """The `directory.id` of one of them."""
        return self._ids[directory]

    async def set_aside(self, is_stray: Callable[[PartitionDirectory], bool]) -> None:
        """Take the directories of partitions that are none of this broker's out of the way."""
        for directory in self._directories:
            strays = [found for found in directory.partitions() if is_stray(found)]
            await directory.set_aside(strays)
            for stray in strays:
                self.forget(stray.topic, stray.partition)

    def find(self, topic: str, index: int, assigned: bytes) -> tuple[LogDirectory, bool]:
        """(the directory of a partition, whether it is new there).

        A new one goes where the metadata assigns it to, else where the fewest are.
        """
        directory = self._of.get((topic, index))
        if directory is not None:
            return directory, False
        self._of[topic, index] = directory = self._by_id.get(assigned) or self._emptiest()
        return directory, True

    def _emptiest(self) -> LogDirectory:
        sizes = Counter(map(id, self._of.values()))
        usable = [one for one in self._directories if one.failed is None] or self._directories
        return min(usable, key=lambda one: sizes[id(one)]) if len(usable) > 1 else usable[0]

    def missing(self, topic: str, index: int, assigned: bytes) -> tuple[LogDirectory, str] | None:
        """(whose partition this is, why it cannot be made anew); None where it is here, or never held anything.

        For a partition that was there when this broker last ran.
        """
        if (topic, index) in self._of:
            return None
        if is_directory(assigned) and assigned not in self._by_id:
            return self._directories[0], "it is assigned to a log directory that is not among log.dirs"
        for directory in self._directories:
            if directory.high_watermark(topic, index) > 0:
                return directory, "its directory is missing, though there were records in it"
        return None

    def forget(self, topic: str, index: int) -> None:
        """A partition is deleted."""
        self._of.pop((topic, index), None)
