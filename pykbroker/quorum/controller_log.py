"""The metadata log, adapted to the shell of the controller's state machine. Each commit publishes a metadata image."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from typing import Any

from pykbroker.core.errors import ApiError
from pykbroker.core.log.verification import Verification
from pykbroker.core.metadata.record import Record
from pykbroker.core.outcome import Entry
from pykbroker.core.steps import Steps
from pykbroker.machines.log import BetweenRequests, LogLost
from pykbroker.quorum.driver import Driver
from pykbroker.quorum.images import Images
from pykbroker.quorum.snapshotter import Snapshotter
from wire.error_codes import ErrorCode

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class ControllerLog:
    """The log of the active controller. It matches `machines.log.MachineLog`."""

    def __init__(self, driver: Driver, images: Images, snapshotter: Snapshotter) -> None:
        self._driver, self._images, self._snapshotter = driver, images, snapshotter

    def require_open(self) -> None:
        """Do nothing: the only voter leads for as long as it runs."""

    def frame(self, records: Sequence[Record], wall_ms: int, *, split: bool) -> Steps[Sequence[tuple[Any, Any]]]:
        """Return the records as batches. Raise ApiError POLICY_VIOLATION if a batch would be too large."""
        return self._driver.frame(records, wall_ms)

    def append(self, batch: bytes, wall_ms: int, verification: Verification | None, *, is_first: bool) -> int:
        """Append a batch and return the offset after it. Raise LogLost if the log may have been damaged by a failure.

        Raise ApiError KAFKA_STORAGE_ERROR if the disk is full and nothing was written.
        """
        try:
            return self._driver.append(batch, wall_ms)
        except OSError as error:
            if error.errno in DISK_FULL and is_first:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk of the metadata log is full") from error
            raise LogLost(str(error)) from error

    def entries(self, records: Sequence[Record], end_offset: int) -> Iterator[Entry[Record]]:
        """Yield the records of an appended batch that ends at `end_offset`, each with its offset."""
        return self._driver.entries(records, end_offset)

    def is_committed(self, offset: int) -> bool:
        """Whether an image with all records below `offset` is published."""
        return self._images.committed.offset + 1 >= offset

    async def commit(self, offset: int, replayed: int, between: BetweenRequests[Any]) -> int:
        """Freeze a metadata image between two requests, make its records durable with one fsync, and publish it."""
        delta = await between(self._driver.freeze)
        try:
            await self._driver.commit()
        except OSError as error:
            raise LogLost(str(error)) from error
        self._images.publish(delta)
        self._driver.progress.note()
        self._snapshotter.committed()
        end_offset: int = delta.image.offset + 1
        return end_offset
