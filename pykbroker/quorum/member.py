"""The Protocol of this node's part in the quorum: that of the controller, or that of an observer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pykbroker.quorum.images import Images
from pykbroker.quorum.snapshotter import Snapshotter
from pykbroker.quorum.statistics import ControllerStatistics


class QuorumMember(Protocol):
    """A node that has the metadata log. `images` has the committed metadata."""

    images: Images
    snapshotter: Snapshotter
    applies: bool
    """Whether this broker has begun to apply images."""

    @property
    def epoch(self) -> int:
        """Return the newest known epoch of the quorum."""

    @property
    def kraft_version(self) -> int:
        """Return the level of `kraft.version`."""

    broker_epoch: Callable[[], int]
    """A function that returns this broker's epoch, -1 until it is registered."""

    def was_silent(self, seconds: float) -> bool:
        """Whether this node has not asked for newer metadata for so long, as after a stop of its process."""

    def statistics(self) -> ControllerStatistics: ...

    async def run(self) -> None:
        """Commit or fetch metadata until cancelled. Raise StopError if the log failed."""

    async def close(self) -> None:
        """Close the log. `run` must have ended."""
