"""The points at which the power may fail during a workload, and the possible states of the disk after each failure.

A recording is a list of calls on a volume, with the facts that the workload knew after each call: acknowledged to a
client, or intended. Point n is the power failure after n calls. Any of these calls may be lost or torn, unless a later
call has synced it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Generic, TypeVar

from pykbroker.sim.power_loss import ALL_KEPT, after_power_loss
from pykbroker.sim.volume import DiskCall, Volume

K = TypeVar("K")


@dataclass(frozen=True)
class PowerLoss(Generic[K]):
    """A disk after a power failure, and the facts that the workload knew at that time."""

    point: int
    number: int
    volume: Volume
    known: K
    last_call: str


class Recording(Generic[K]):
    """A recording of a workload on `volume`, whose initial content was `start`.

    The workload notes each fact that it knows.
    """

    def __init__(self, known: K, start: Volume | None = None) -> None:
        self._start = start or Volume()
        self.calls: list[DiskCall] = []
        self.volume = self._begin()
        self.volume.noted = lambda name, args: self.calls.append((name, args))
        self._noted_at, self._known = [0], [known]

    def note(self, known: K) -> None:
        """Record that the workload knows this from the current call on."""
        self._noted_at.append(len(self.calls))
        self._known.append(known)

    def endings(self, per_point: int, seed: int, points: Iterable[int] | None = None) -> Iterator[PowerLoss[K]]:
        """Yield `per_point` power losses at each point. `points` ascend. By default they are all points."""
        volume, made = self._begin(), 0
        for point in range(len(self.calls) + 1) if points is None else points:
            for call in self.calls[made:point]:
                volume.play(call)
            made = point
            for number in range(per_point):
                yield self._ending(volume, point, number, seed)

    def ending(self, point: int, number: int, seed: int) -> PowerLoss[K]:
        """Return again one of the power losses that `endings` yields."""
        volume = self._begin()
        for call in self.calls[:point]:
            volume.play(call)
        return self._ending(volume, point, number, seed)

    def _ending(self, volume: Volume, point: int, number: int, seed: int) -> PowerLoss[K]:
        after = after_power_loss(volume, Random(f"{seed} {point} {number}"))
        known = self._known[bisect_right(self._noted_at, point) - 1]
        return PowerLoss(point, number, after, known, written_out(self.calls[point - 1]) if point else "nothing")

    def _begin(self) -> Volume:
        return after_power_loss(self._start, Random(0), ALL_KEPT)


def written_out(call: DiskCall) -> str:
    """Return a call on one line, with the sizes of its data."""
    name, args = call
    return f"{name}({', '.join(f'{len(arg)} bytes' if isinstance(arg, bytes) else repr(arg) for arg in args)})"
