"""The states of this broker's log directories: which have failed, and which are cordoned (KIP-858, KIP-1066)."""

from __future__ import annotations

from collections.abc import Callable

import trio

from pykbroker.core.config.broker_bounds import EVERY_DIRECTORY
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.errors import StopError
from pykbroker.core.metadata.record import CORDONED_LEVEL
from pykbroker.quorum.lifecycle import Lifecycle
from pykbroker.replica.placing.places import Places
from pykbroker.storage.directory.log_directory import LogDirectory


class DirectoryStates:
    """The states that heartbeats report. It matches `quorum.lifecycle.ReportedDirectories`."""

    def __init__(self, places: Places, config: Callable[[], BrokerConfig], level: Callable[[], int]) -> None:
        """`level` returns the level of metadata.version. Before 4.3-IV0, no directory is cordoned."""
        self._places, self._config, self._level = places, config, level

    def offline(self) -> list[bytes]:
        """Return the ids of the directories that have failed since the start."""
        return [self._places.id_of(one) for one in self._places.directories if one.failed is not None]

    def cordoned(self) -> list[bytes]:
        """Return the ids of the directories that take no new replicas."""
        return [self._places.id_of(one) for one in self._places.directories if self.is_cordoned(one)]

    def is_cordoned(self, directory: LogDirectory) -> bool:
        """Whether `cordoned.log.dirs` names this directory."""
        named = self._config().cordoned_log_dirs if self._level() >= CORDONED_LEVEL else ()
        return EVERY_DIRECTORY in named or directory.path in named


class DirectoryFailures:
    """The tasks that report failed log directories to the controller at once.

    The broker stops if the controller does not learn of a failure within `timeout_ms` (log.dir.failure.timeout.ms): it
    would elect replicas in that directory.
    """

    def __init__(self, places: Places, lifecycle: Lifecycle, timeout_ms: int) -> None:
        self._places, self._lifecycle, self._timeout_ms = places, lifecycle, timeout_ms

    async def run(self) -> None:
        """Watch all directories until cancelled. Raise StopError."""
        async with trio.open_nursery() as nursery:
            for directory in self._places.directories:
                nursery.start_soon(self._watch, directory)

    async def _watch(self, directory: LogDirectory) -> None:
        await directory.failure.wait()
        with trio.move_on_after(self._timeout_ms / 1000):
            await self._lifecycle.wait_reported(self._places.id_of(directory))
            return
        raise StopError(
            f"the broker stops: {directory.path} failed ({directory.failed}), and the controller did not learn of that"
            f" within {self._timeout_ms} ms (log.dir.failure.timeout.ms). Repair the disk, or remove the directory from"
            " log.dirs, and start the broker again."
        )
