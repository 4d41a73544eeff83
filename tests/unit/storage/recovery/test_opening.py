"""Tests of the limit on open segments of a directory, below it, at it and above it."""

from __future__ import annotations

from pykbroker.sim.disk import SimDisk
from pykbroker.sim.volume import Volume
from pykbroker.storage.segments.opening import Loaded
from pykbroker.world.disk import File


class Segment:
    """A double of a segment that is open until it is unloaded."""

    def __init__(self, loaded: Loaded, file: File) -> None:
        self._loaded, self.file = loaded, file
        loaded.use(self)

    def unload(self) -> None:
        self._loaded.lend(self.file)
        del self.file


def test_the_files_of_unloaded_segments_stay_open_while_they_are_sent_up_to_a_limit() -> None:
    loaded, disk = Loaded(2), SimDisk(Volume())
    answers = []
    crowded = []
    for number in range(5):
        segment = Segment(loaded, disk.open(f"{number}.log", create=True))
        answers.append(segment.file)
        crowded.append(loaded.is_crowded)
    assert crowded == [False, False, False, True, True], (
        "two segments are loaded, and the files of segments 1, 2 and 3 are still being sent"
    )
    answers.pop(0)
    assert loaded.is_crowded
    answers.pop(0)
    assert not loaded.is_crowded


def test_unloading_a_segment_that_is_not_sent_closes_its_file() -> None:
    loaded, disk = Loaded(1), SimDisk(Volume())
    for number in range(5):
        Segment(loaded, disk.open(f"{number}.log", create=True))
        assert not loaded.is_crowded
