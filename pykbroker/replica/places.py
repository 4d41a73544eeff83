"""In which log directory each partition of this broker lies, and where a new one goes."""

from __future__ import annotations

from collections import Counter

from pykbroker.core.errors import StartError
from pykbroker.storage.log_directory import LogDirectory


class Places:
    """As the directories were found at start, and as partitions came and went since."""

    def __init__(self, directories: tuple[LogDirectory, ...]) -> None:
        self._directories = directories
        self._of: dict[tuple[str, int], LogDirectory] = {}
        for directory in directories:
            for found in directory.partitions():
                twin = self._of.setdefault((found.topic, found.partition), directory)
                if twin is not directory:
                    raise StartError(
                        f"{found.topic}-{found.partition} lies in {twin.path} and in {directory.path}: move one of them"
                        " out of the log directories"
                    )

    def find(self, topic: str, index: int) -> tuple[LogDirectory, bool]:
        """(the directory of a partition, whether it is new there); a new one goes where the fewest are."""
        directory = self._of.get((topic, index))
        if directory is not None:
            return directory, False
        sizes = Counter(map(id, self._of.values()))
        usable = [one for one in self._directories if one.failed is None] or self._directories
        directory = min(usable, key=lambda one: sizes[id(one)]) if len(usable) > 1 else usable[0]
        self._of[topic, index] = directory
        return directory, True

    def has(self, topic: str, index: int) -> bool:
        """Whether a partition has a directory."""
        return (topic, index) in self._of

    def held(self, topic: str, index: int) -> LogDirectory | None:
        """Where a partition had records when that was last written down; asked about one that has no directory."""
        return next((one for one in self._directories if one.high_watermark(topic, index) > 0), None)

    def forget(self, topic: str, index: int) -> None:
        """A partition is deleted."""
        self._of.pop((topic, index), None)
