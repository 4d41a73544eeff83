"""The append of transaction markers to partitions that this broker leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from pykbroker.coordinator.partition_log import PartitionLog
from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.log.producers import Marker
from pykbroker.core.names import GROUP_METADATA_TOPIC


class AppendedMarker(Protocol):
    """A marker that has been appended to a log."""

    async def wait(self) -> Any:
        """Wait until the marker is committed.

        Raise ApiError if it may be missing from the log and must be written again.
        """


class Endings:
    """A writer of transaction markers. Markers for `__consumer_offsets` are appended by the group coordinator."""

    def __init__(self, log_of: Callable[[str, int], PartitionLog], groups: Runtime, wall_ms: Callable[[], int]) -> None:
        self._log_of, self._groups, self._wall_ms = log_of, groups, wall_ms

    def append(self, topic: str, index: int, marker: Marker) -> AppendedMarker:
        """Append the marker and return an object to wait on. Raise ApiError if the log refuses the marker."""
        log = self._log_of(topic, index)
        if topic == GROUP_METADATA_TOPIC:
            return self._groups.ask_at(index, marker)
        return _Appended(log, log.append_own(marker, self._wall_ms(), None))


class _Appended:
    __slots__ = ("_log", "_offset")

    def __init__(self, log: PartitionLog, offset: int) -> None:
        self._log, self._offset = log, offset

    async def wait(self) -> None:
        if self._log.flush_due:
            await self._log.flush()
        await self._log.wait_committed(self._offset)
