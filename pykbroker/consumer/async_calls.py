"""The calls of the consumer for asyncio that do not return records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from pykbroker.consumer.hosted import HostedConsumer
from pykbroker.core.consumer.commits import CommitIdentity
from pykbroker.core.consumer.offsets import TimedOffset
from pykbroker.core.consumer.position import CommittedOffset
from pykbroker.core.consumer.subscription import paused
from pykbroker.core.topic_partition import TopicPartition


class AsyncCalls:
    """The positions, the commits and the look-ups of a consumer for asyncio.

    ConsumerTimeout is raised after `default_api_timeout_ms`. Functions that are not async change what the next poll
    does.
    """

    def __init__(self) -> None:
        self._started: HostedConsumer | None = None

    @property
    def _hosted(self) -> HostedConsumer:
        if self._started is None:
            raise RuntimeError("the consumer is not started: use `async with`, or await start() first")
        return self._started

    async def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the consumer in its thread, and return its result."""
        return await self._hosted.call_async(function, *args)

    # ---- positions

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at an offset. Raise SubscriptionConflict for a partition that is not assigned."""
        self._hosted.ask(self._hosted.calls.seek, TopicPartition(*partition), offset)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the start of the log, which is looked up later. By default, all assigned partitions move."""
        await self._call(self._hosted.calls.seek_to_beginning, partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue at the end of the log, which is looked up later. By default, all assigned partitions move."""
        await self._call(self._hosted.calls.seek_to_end, partitions)

    async def seek_to_committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int | None]:
        """Continue at committed offsets, and return them. By default, all assigned partitions move."""
        moved = list(partitions) or self._hosted.shell.subscription.partitions
        found = await self._call(self._hosted.calls.committed, moved)
        for partition, committed in found.items():
            if committed is not None:
                self.seek(partition, committed.offset)
        return {partition: None if each is None else each.offset for partition, each in found.items()}

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record."""
        found: int = await self._call(self._hosted.calls.position, TopicPartition(*partition))
        return found

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Return the last stable offset of the last fetch, or None before it."""
        return self._hosted.shell.subscription[TopicPartition(*partition)].last_stable_offset

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the partitions of a topic in the metadata of this consumer, or None if it has none of the topic."""
        found = self._hosted.shell.topics.cluster.topics.get(topic)
        return None if found is None else {each.index for each in found.partitions}

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of the last fetch, or None before it."""
        return self._hosted.shell.subscription[TopicPartition(*partition)].high_watermark

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`."""
        self._hosted.ask(self._hosted.calls.pause, partitions)

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return paused(self._hosted.shell.subscription)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        self._hosted.ask(self._hosted.calls.resume, partitions)

    # ---- the group

    async def commit(self, offsets: Mapping[TopicPartition, Any] | None = None) -> None:
        """Commit offsets, by default those behind the records that were returned.

        A value is a CommittedOffset, a number, or a pair of an offset and a text. Errors are those of Consumer.commit.
        """
        given = None if offsets is None else {key: _committed(each) for key, each in offsets.items()}
        await self._call(self._hosted.calls.commit, given)

    async def committed(self, partition: TopicPartition) -> int | None:
        """Return the committed offset of the group, or None if there is none."""
        [found] = (await self._call(self._hosted.calls.committed, [TopicPartition(*partition)])).values()
        return None if found is None else int(found.offset)

    def group_member(self) -> CommitIdentity:
        """Return this consumer for `send_offsets_to_transaction`, which fences earlier members (KIP-447)."""
        return self._hosted.shell.identity()

    # ---- look-ups

    async def topics(self) -> set[str]:
        """Return the names of all topics, without the internal ones."""
        found: set[str] = await self._call(self._hosted.calls.topics)
        return found

    async def partitions_for(self, topic: str) -> list[int]:
        """Return the partitions of a topic, none if it does not exist."""
        found: list[int] = await self._call(self._hosted.calls.partitions_for, topic)
        return found

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, TimedOffset | None]:
        """Return the first offsets whose records have at least these timestamps, in ms since 1970."""
        found: dict[TopicPartition, TimedOffset | None] = await self._call(
            self._hosted.calls.offsets_for_times, timestamps
        )
        return found

    async def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offsets of logs."""
        found: dict[TopicPartition, int] = await self._call(self._hosted.calls.beginning_offsets, partitions)
        return found

    async def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets of the next records. With read_committed, these are the last stable offsets."""
        found: dict[TopicPartition, int] = await self._call(self._hosted.calls.end_offsets, partitions)
        return found


def _committed(given: Any) -> Any:
    """Return an offset to commit, which may be a pair of a number and a text, as in aiokafka."""
    is_pair = isinstance(given, tuple) and not isinstance(given, CommittedOffset) and len(given) == 2
    return CommittedOffset(given[0], metadata=given[1]) if is_pair else given
