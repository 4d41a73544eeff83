"""The state of one open log: its offsets, segments, leader epochs and producers, shared by the parts of `Log`."""

from __future__ import annotations

from pykbroker.storage.files.small_files import replace, warned
from pykbroker.storage.recovery import producer_snapshot
from pykbroker.storage.recovery.recovery import RecoveredLog
from pykbroker.storage.segments.opening import Opening
from pykbroker.storage.segments.segment import ActiveSegment, file_name
from pykbroker.storage.segments.segments import Segments
from pykbroker.storage.segments.tail import Tail


class LogState:
    """The state of one open log. `snapshot_offset` is the offset of the newest producer snapshot, -1 without one.

    `is_deleted` is true once the log was deleted. Its files must not be touched afterwards.
    """

    __slots__ = (
        "disk",
        "epochs",
        "is_deleted",
        "log_end_offset",
        "log_start_offset",
        "opening",
        "producers",
        "segments",
        "snapshot_offset",
        "tail",
        "traffic",
    )

    def __init__(self, opening: Opening, recovered: RecoveredLog) -> None:
        self.opening, self.disk, self.traffic = opening, opening.disk, opening.traffic
        self.segments = Segments(opening, recovered.sealed, recovered.unsynced, recovered.active)
        self.tail = Tail()
        self.epochs, self.producers = recovered.epochs, recovered.producers
        self.log_start_offset = recovered.log_start_offset
        self.log_end_offset = recovered.active.next_offset
        self.snapshot_offset = recovered.snapshot_offset
        self.is_deleted = False

    @property
    def directory(self) -> str:
        """Return the path of the log's directory, relative to its log directory."""
        return self.opening.directory

    def roll(self) -> ActiveSegment:
        """Seal the active segment and begin the next segment at the log end offset.

        If OSError is raised, nothing changed.
        """
        active = self.segments.roll(self.log_end_offset)
        self.tail.clear()
        self.take_snapshot()
        return active

    def take_snapshot(self) -> None:
        """Write a producer snapshot at the log end offset, which shortens recovery."""
        [(path, content)] = self.snapshot_file().items()
        with warned(path):
            replace(self.disk, path, content)
            self.snapshot_offset = self.log_end_offset

    def snapshot_file(self) -> dict[str, bytes]:
        """Return the content of a producer snapshot at the log end offset by path."""
        path = file_name(self.directory, self.log_end_offset, ".snapshot")
        return {path: producer_snapshot.encode(self.producers.entries())}
