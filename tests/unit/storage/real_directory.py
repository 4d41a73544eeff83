"""A log directory on the real disk, with a clock that the test sets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.sim.off_loop import InlineOffLoop
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.storage.files.checkpoints import decode_offsets
from pykbroker.world.off_loop import OffLoop
from pykbroker.world.system_disk import SystemDisk
from pykbroker.world.system_off_loop import SystemOffLoop
from tests.unit.storage.logs import NOW


class RealDirectory:
    """A log directory with its own clock. A test may shut it down cleanly, or leave it as a crash does."""

    def __init__(self, path: Path) -> None:
        self.path, self.now_ms = path, NOW
        self.disk = SystemDisk(str(path), SystemOffLoop(), durable=False)

    async def open(self, off_loop: OffLoop | None = None) -> LogDirectory:
        """Open the directory.

        By default off-loop work runs on the event loop, since an autojump clock does not wait for threads.
        """
        self.directory = await LogDirectory.open(
            self.disk, off_loop=off_loop or InlineOffLoop(), wall_ms=lambda: self.now_ms, jitter=lambda: 0.5
        )
        return self.directory

    def crash(self) -> None:
        """Release the lock and the files without a clean shutdown, as a killed process does."""
        self.disk.unlock(".lock")
        self.disk = SystemDisk(str(self.path), SystemOffLoop(), durable=False)

    def offsets(self, name: str) -> Mapping[TopicPartition, int]:
        return decode_offsets((self.path / name).read_bytes())
