"""The reports to the controller of the log directories in which this broker has its replicas (KIP-858).

Reports are sent in the background, so that metadata is applied while the controller has not responded yet.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicIdPartition
from pykbroker.quorum.lifecycle import Lifecycle

RETRY_S = 1.0

logger = logging.getLogger(__name__)


class DirectoryReports:
    """The reports that the controller has not recorded. A later directory of a partition replaces an earlier one."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._pending: dict[TopicIdPartition, bytes] = {}
        self._noted = trio.Event()

    def note(self, placed: Mapping[TopicIdPartition, bytes]) -> None:
        """Report the directory ids of these partitions soon."""
        if placed:
            self._pending.update(placed)
            self._noted.set()

    async def run(self) -> None:
        """Send reports until cancelled. A refused one is sent again."""
        while True:
            await self._noted.wait()
            placed, self._pending, self._noted = self._pending, {}, trio.Event()
            try:
                await self._lifecycle.assign(placed)
            except ApiError as refusal:
                logger.warning(
                    "the controller did not record the log directories of %d partitions: %s. They are reported again.",
                    len(placed),
                    refusal,
                )
                self.note({**placed, **self._pending})
                await trio.sleep(RETRY_S)
