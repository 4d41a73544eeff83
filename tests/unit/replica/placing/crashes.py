"""The power losses after each of some calls on a volume."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

from pykbroker.sim.power_loss import ALL_KEPT, Luck, after_power_loss
from pykbroker.sim.volume import DiskCall, Volume

ENDINGS = 3
"""The number of power losses after a call that lose unsynced writes by chance. One more loses none."""


def crashes(volume: Volume, calls: Iterable[DiskCall]) -> Iterator[tuple[DiskCall, Volume]]:
    """Play the calls on a volume. Yield each call, with the volume after a power loss that follows it."""
    for call in calls:
        volume.play(call)
        for ending in range(ENDINGS + 1):
            luck = ALL_KEPT if ending == ENDINGS else Luck.drawn(Random(f"{call} {ending}"))
            yield call, after_power_loss(volume, Random(ending), luck)
