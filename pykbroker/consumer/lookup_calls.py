"""The look-ups of a consumer that need no subscription."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, TypeVar

import trio

from pykbroker.consumer.shell import ConsumerShell
from pykbroker.core.consumer.errors import ConsumerTimeout
from pykbroker.core.consumer.offsets import TimedOffset
from pykbroker.core.topic_partition import TopicPartition
from wire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

T = TypeVar("T")


class LookupCalls:
    """The look-ups of offsets, partitions and topics. Each raises ConsumerTimeout after `default_api_timeout_ms`."""

    def __init__(self, shell: ConsumerShell) -> None:
        self._shell, self._settings = shell, shell.settings

    async def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offsets of logs."""
        return await self._ends(partitions, EARLIEST_TIMESTAMP)

    async def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets of the next records: high watermarks, or for read_committed last stable offsets."""
        return await self._ends(partitions, LATEST_TIMESTAMP)

    async def _ends(self, partitions: Collection[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        found = await self.offsets_for_times(dict.fromkeys(partitions, timestamp))
        return {partition: 0 if each is None else each.offset for partition, each in found.items()}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, TimedOffset | None]:
        """Return the first offsets whose records have at least these timestamps, in ms since 1970.

        None stands for a timestamp after the last record.
        """
        return await self._limited(self._shell.lookups.offsets, timestamps)

    async def partitions_for(self, topic: str) -> list[int]:
        """Return the partitions of a topic, none if it does not exist."""
        creates = self._settings.allow_auto_create_topics
        found = await self._limited(lambda: self._shell.lookups.topics([topic], creates=creates))
        return sorted(each.partition_index for topic_ in found for each in topic_.partitions)

    async def topics(self) -> set[str]:
        """Return the names of all topics, without the internal ones."""
        found = await self._limited(self._shell.lookups.topics, None)
        return {each.name for each in found if each.name and not each.is_internal}

    async def _limited(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Return the result of a call, or raise ConsumerTimeout after `default_api_timeout_ms`.

        Raise ConsumerClosed after the end, and RuntimeError in a forked process.
        """
        self._shell.check_open()
        limit_ms = self._settings.default_api_timeout_ms
        with trio.move_on_after(limit_ms / 1000):
            return await function(*args)
        raise ConsumerTimeout(f"no answer within default_api_timeout_ms={limit_ms}: call it again")
