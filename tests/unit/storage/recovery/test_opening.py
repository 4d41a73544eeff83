"""Which segments of a directory are open: at, below and above the bounds."""

from __future__ import annotations

from pykbroker.sim.disk import SimDisk
from pykbroker.sim.volume import Volume
from pykbroker.storage.segments.opening import Loaded
from pykbroker.world.disk import File


class Segment:
    """Open until it is unloaded."""

    def __init__(self, loaded: Loaded, file: File) -> None:
        self._loaded, self.file = loaded, file
        loaded.use(self)

    def unload(self) -> None:
        self._loaded.lend(self.file)
        del self.file


def test_files_are_lent_until_nobody_sends_them_and_not_too_many() -> None:
    loaded, disk = Loaded(2), SimDisk(Volume())
    answers = []
    crowded = []
    for number in range(5):
        segment = Segment(loaded, disk.open(f"{number}.log", create=True))
        answers.append(segment.file)
        crowded.append(loaded.is_crowded)
    assert crowded == [False, False, False, True, True], "two are loaded; one, two and three are lent"
    answers.pop(0)
    assert loaded.is_crowded
    answers.pop(0)
    assert not loaded.is_crowded


def test_a_segment_that_nobody_sends_is_closed_when_it_is_unloaded() -> None:
    loaded, disk = Loaded(1), SimDisk(Volume())
    for number in range(5):
        Segment(loaded, disk.open(f"{number}.log", create=True))
        assert not loaded.is_crowded
