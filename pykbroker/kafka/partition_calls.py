"""The calls of kafka-python's consumer about partitions: positions, commits and look-ups."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import contextmanager
from functools import partial
from math import inf
from typing import Any

from pykbroker.consumer.hosted import HostedConsumer
from pykbroker.core.consumer.errors import ConsumerError, ConsumerTimeout
from pykbroker.core.consumer.partition_state import AssignedPartition
from pykbroker.core.consumer.position import CommittedOffset
from pykbroker.core.consumer.subscription import paused
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.kafka.errors import IllegalStateError, KafkaTimeoutError, as_kafka
from pykbroker.kafka.future import CommitFuture
from pykbroker.kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata, OffsetAndTimestamp


class PartitionCalls:
    """The part of KafkaConsumer that does not return records. Errors are those of kafka-python.

    Calls for commits raise IllegalStateError without a `group_id`.

    `timeout_ms` limits one call. Without it, a call waits up to 60 s, and then raises KafkaTimeoutError.
    """

    def __init__(self, hosted: HostedConsumer, config: Mapping[str, Any]) -> None:
        self.config, self._hosted = config, hosted
        self._committed: deque[tuple[Callable[..., Any], Any, Any]] = deque()
        """The callbacks of commits that are done, which the next call of the user runs."""

    # ---- positions

    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int | None:
        """Return the offset of the next record, or None if it is unknown after `timeout_ms`."""
        self._check_assigned(partition)
        try:
            found: int = self._ask(self._hosted.calls.position, TopicPartition(*partition), timeout_ms=timeout_ms)
        except KafkaTimeoutError:
            return None
        return found

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of the last fetch, or None before it."""
        return self._check_assigned(partition).high_watermark

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`. Raise KeyError for one that is not assigned."""
        self._ask(self._hosted.calls.pause, self._check_known(checked(partitions)))

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return paused(self._hosted.shell.subscription)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again. Raise KeyError for one that is not assigned."""
        self._ask(self._hosted.calls.resume, self._check_known(checked(partitions)))

    def seek(self, partition: TopicPartition, offset: Any) -> None:
        """Continue at an offset."""
        [moved] = checked([partition])
        if not isinstance(offset, int) or offset < 0:
            raise ValueError("Offset must be int >= 0")
        self._check_owned([moved])
        self._ask(self._hosted.calls.seek, moved, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the start of the log. By default, all assigned partitions move."""
        self._ask(self._hosted.calls.seek_to_beginning, self._check_owned(checked(partitions)))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue at the end of the log. By default, all assigned partitions move."""
        self._ask(self._hosted.calls.seek_to_end, self._check_owned(checked(partitions)))

    # ---- commits

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None, timeout_ms: float | None = None
    ) -> None:
        """Commit offsets, by default those behind the records that were returned."""
        self._check_group()
        self._call_back()
        self._ask(
            self._hosted.calls.commit, None if offsets is None else committed_offsets(offsets), timeout_ms=timeout_ms
        )

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        callback: Callable[[Any, Any], Any] | None = None,
    ) -> CommitFuture:
        """Commit offsets in the background.

        `callback` gets the offsets, and None or an error, in a later `poll`, `commit` or `close` of this consumer.
        """
        self._check_group()
        self._call_back()
        found: Any = offsets
        if found is None:
            consumed = self._ask(self._hosted.shell.consumed)
            found = {key: OffsetAndMetadata(each.offset, each.metadata, each.epoch) for key, each in consumed.items()}
        function = callback or self.config["default_offset_commit_callback"]
        future = CommitFuture().add_both(lambda result: self._committed.append((function, found, result)))
        self._hosted.submit(self._hosted.calls.commit, committed_offsets(found), done=future.settle)
        return future

    def _call_back(self) -> None:
        while self._committed:
            function, offsets, result = self._committed.popleft()
            function(offsets, result)

    def committed(
        self, partition: TopicPartition, metadata: bool = False, timeout_ms: float | None = None
    ) -> int | OffsetAndMetadata | None:
        """Return the committed offset of the group, or with `metadata` OffsetAndMetadata. None stands for no offset."""
        self._check_group()
        [key] = checked([partition])
        found = self._ask(self._hosted.calls.committed, [key], timeout_ms=timeout_ms)[key]
        if found is None:
            return None
        return OffsetAndMetadata(found.offset, found.metadata, found.epoch) if metadata else int(found.offset)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this member for `send_offsets_to_transaction`, which fences earlier members (KIP-447)."""
        group = self.config["group_id"]
        try:
            found = self._hosted.shell.identity() if group is not None else None
        except (ConsumerError, ApiError):
            found = None
        if found is None:
            return ConsumerGroupMetadata(group)
        state = "<stable>" if found.member_id else "<unjoined>"
        return ConsumerGroupMetadata(found.group_id, found.epoch, found.member_id, found.instance_id, state)

    # ---- look-ups

    def topics(self) -> set[str]:
        """Return the names of all topics."""
        found: set[str] = self._ask(self._hosted.calls.topics)
        return found

    def partitions_for_topic(self, topic: str) -> set[int]:
        """Return the partitions of a topic, none if it does not exist, as for anything that is no name."""
        if not isinstance(topic, str):
            return set()
        return set(self._ask(self._hosted.calls.partitions_for, topic))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first offsets whose records have at least these timestamps, in ms since 1970."""
        wanted = {TopicPartition(*partition): int(each) for partition, each in timestamps.items()}
        for partition, timestamp in wanted.items():
            if timestamp < 0:
                raise ValueError(
                    f"The target time for partition {partition} is {timestamp}. The target time cannot be negative."
                )
        found = self._ask(self._hosted.calls.offsets_for_times, wanted, timeout_ms=timeout_ms)
        return {
            partition: None if each is None else OffsetAndTimestamp(each.offset, each.timestamp, each.epoch)
            for partition, each in found.items()
        }

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offsets of logs."""
        found: dict[TopicPartition, int] = self._ask(
            self._hosted.calls.beginning_offsets, checked(partitions), timeout_ms=timeout_ms
        )
        return found

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offsets of the next records. With read_committed, these are the last stable offsets."""
        found: dict[TopicPartition, int] = self._ask(
            self._hosted.calls.end_offsets, checked(partitions), timeout_ms=timeout_ms
        )
        return found

    # ---- internals

    def _ask(self, function: Callable[..., Any], *args: Any, timeout_ms: float | None = None) -> Any:
        """Call a function of the consumer in its thread, and return its result."""
        timeout_s = inf if timeout_ms is None else timeout_ms / 1000
        with kafka_errors():
            return self._hosted.ask(partial(function, *args), timeout_s=timeout_s)

    def _check_group(self) -> None:
        if self.config["group_id"] is None:
            raise IllegalStateError("Requires group_id")

    def _check_assigned(self, partition: TopicPartition) -> AssignedPartition:
        """Return the state of a partition. Raise IllegalStateError if it is not assigned."""
        [key] = checked([partition])
        state = self._hosted.shell.subscription.get(key)
        if state is None:
            raise IllegalStateError("Partition is not assigned")
        return state

    def _check_known(self, partitions: Collection[TopicPartition]) -> Collection[TopicPartition]:
        assigned = self._hosted.shell.subscription.partitions
        for partition in partitions:
            if partition not in assigned:
                raise KeyError(partition)
        return partitions

    def _check_owned(self, partitions: Collection[TopicPartition]) -> Collection[TopicPartition]:
        """Raise ValueError for a partition that is not assigned, or if there is none."""
        assigned = self._hosted.shell.subscription.partitions
        if not partitions and not assigned:
            raise ValueError("No partitions are currently assigned")
        for partition in partitions:
            if partition not in assigned:
                raise ValueError(f"Unassigned partition: {partition}")
        return partitions


@contextmanager
def kafka_errors() -> Any:
    """Raise errors of this package as those of kafka-python."""
    try:
        yield
    except ConsumerTimeout as error:
        raise as_kafka(error) from error
    except Exception as error:
        found = as_kafka(error)
        if found is error:
            raise
        raise found from error


def checked(partitions: Iterable[Any]) -> list[TopicPartition]:
    """Return partitions. Raise TypeError for anything else, such as a name."""
    found = list(partitions)
    if not all(isinstance(each, tuple) and len(each) == 2 for each in found):
        raise TypeError("partitions must be TopicPartition namedtuples")
    return [TopicPartition(*each) for each in found]


def committed_offsets(offsets: Any) -> dict[TopicPartition, CommittedOffset]:
    """Return the offsets of a commit. Raise TypeError for anything that is no mapping to OffsetAndMetadata."""
    if not isinstance(offsets, Mapping) or not all(hasattr(each, "offset") for each in offsets.values()):
        raise TypeError("offsets must be dict[TopicPartition, OffsetAndMetadata]")
    keys = checked(offsets)
    return {
        key: CommittedOffset(each.offset, getattr(each, "leader_epoch", -1), each.metadata or "")
        for key, each in zip(keys, offsets.values(), strict=True)
    }
