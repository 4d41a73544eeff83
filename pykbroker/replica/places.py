"""In which log directory each partition of this broker lies, and where a new one goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from pykbroker.core.errors import StartError
from pykbroker.core.metadata.ids import LOST, id_text, is_directory
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.files.partition_directory import PartitionDirectory


class Places:
    """As the directories were found at start, and as partitions came and went since. `ids` are in their order.

    `coming`: the copies that were found of partitions on their way to another directory.
    """

    def __init__(self, directories: tuple[LogDirectory, ...], ids: Sequence[bytes]) -> None:
        self.directories = directories
        self.coming: dict[tuple[str, int], LogDirectory] = {}
        self._by_id = dict(zip(ids, directories, strict=True))
        self._ids = {directory: directory_id for directory_id, directory in self._by_id.items()}
        self._of: dict[tuple[str, int], LogDirectory] = {}
        self._sizes: Counter[LogDirectory] = Counter()
        for directory in directories:
            for found in directory.partitions():
                twin = self._of.setdefault((found.topic, found.partition), directory)
                if twin is not directory:
                    raise StartError(
                        f"{found.topic}-{found.partition} lies in {twin.path} and in {directory.path}: move one of them"
                        " out of the log directories"
                    )
                self._sizes[directory] += 1

    @property
    def open_logs(self) -> int:
        """Logs that are open in all directories, copies on their way included: each keeps a descriptor."""
        return sum(len(one.logs) + len(one.futures.logs) for one in self.directories)

    def id_of(self, directory: LogDirectory) -> bytes:
        """The `directory.id` of one of them."""
        return self._ids[directory]

    async def set_aside(self, is_stray: Callable[[PartitionDirectory], bool]) -> None:
        """Take the directories of partitions that are none of this broker's out of the way."""
        for directory in self.directories:
            strays = [found for found in directory.partitions() if is_stray(found)]
            await directory.set_aside(strays)
            for stray in strays:
                self.forget(stray.topic, stray.partition)

    async def sort_copies(self, assigned: Callable[[str, int], bytes | None]) -> None:
        """At start, for each copy that is there: it is the partition itself, if that is assigned to its directory and
        nowhere else; or it is `coming`; or it is set aside. `assigned`: to which directory, None for strays.
        """
        for directory in self.directories:
            for key in list(directory.futures.names):
                try:
                    await self._sort(directory, key, assigned(*key))
                except OSError as refusal:
                    directory.fail(refusal)

    async def _sort(self, directory: LogDirectory, key: tuple[str, int], assigned: bytes | None) -> None:
        if assigned is None:
            directory.futures.set_aside(key)
        elif key in self._of and key not in self.coming:
            self.coming[key] = directory
        elif key in self._of:
            directory.futures.drop(key)
        elif assigned == self.id_of(directory) or not is_directory(assigned):
            await directory.promote(*key)
            self.moved(*key, directory)

    def moved(self, topic: str, index: int, directory: LogDirectory) -> None:
        """The partition lies in this directory from now on."""
        self.forget(topic, index)
        self._of[topic, index] = directory
        self._sizes[directory] += 1

    def find(self, topic: str, index: int, assigned: bytes) -> tuple[LogDirectory, bool]:
        """(the directory of a partition, whether it is new there).

        A new one goes where the metadata assigns it to, else where the fewest are.
        """
        directory = self._of.get((topic, index))
        if directory is not None:
            return directory, False
        directory = self._by_id.get(assigned) or self._emptiest()
        self.moved(topic, index, directory)
        return directory, True

    def _emptiest(self) -> LogDirectory:
        usable = [one for one in self.directories if one.failed is None] or self.directories
        return min(usable, key=self._sizes.__getitem__)

    def lost(self, before: Iterable[bytes]) -> bool:
        """Whether one of the directories that this broker had before is not here."""
        return any(one not in self._by_id for one in before)

    def missing(self, topic: str, index: int, assigned: bytes, *, lost: bool) -> tuple[LogDirectory, str] | None:
        """(whose partition this is, why it cannot be made anew); None where it is here, or never held anything.

        For a partition that was there when this broker last ran. `lost`: a directory that there was then is not here.
        """
        if (topic, index) in self._of:
            return None
        if is_directory(assigned) and assigned not in self._by_id:
            return self.directories[0], (
                f"it is assigned to the log directory {id_text(assigned)}, which is not here:"
                " mount its disk, or name it in log.dirs"
            )
        for directory in self.directories:
            if directory.high_watermark(topic, index) > 0:
                return directory, "its directory is missing, though there were records in it"
        if assigned == LOST or (lost and not is_directory(assigned)):
            return self.directories[0], (
                "it may lie in a log directory that is not here any more: mount its disk, or name it in log.dirs"
            )
        return None

    def forget(self, topic: str, index: int) -> None:
        """A partition is deleted."""
        directory = self._of.pop((topic, index), None)
        if directory is not None:
            self._sizes[directory] -= 1
