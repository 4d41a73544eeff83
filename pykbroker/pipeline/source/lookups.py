"""The look-ups of a query: which partitions there are, and the offsets at which the query starts and ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from pykbroker.client.admin.admin import check
from pykbroker.consumer.hosted import HostedConsumer
from pykbroker.consumer.settings import consumer_settings
from pykbroker.core.consumer.errors import ConsumerTimeout
from pykbroker.core.consumer.offsets import TimedOffset
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.source.deletions import of_existing
from pykbroker.pipeline.source.errors import DataLoss, log, report_losses
from pykbroker.pipeline.source.offset_json import OffsetMap
from pykbroker.pipeline.source.offset_limits import (
    EARLIEST,
    LATEST,
    EveryPartition,
    EveryTimestamp,
    OffsetLimit,
    SpecificOffsets,
    SpecificTimestamps,
    named,
    specified,
)
from pykbroker.pipeline.source.read_options import ReadOptions
from pykbroker.pipeline.source.topic_selection import selected, topics_to_describe
from wire.messages.metadata import MetadataResponseTopic

T = TypeVar("T")


class OffsetLookup:
    """A consumer that reads nothing. It is closed at the end of the block, or by `close`.

    With `isolation.level=read_committed`, the end of a log is its last stable offset.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._hosted = HostedConsumer(consumer_settings(options.consumer))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._hosted.stop()

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions that the query reads. Raise ApiError for a topic that does not exist."""
        selection = self._options.selection
        found: list[MetadataResponseTopic] = self._ask(
            self._hosted.shell.lookups.topics, topics_to_describe(selection), timed=True
        )
        existing = {}
        for topic in found:
            name = topic.name or ""
            check(topic.error_code, f"Topic '{name}'")
            if not topic.is_internal:  # Spark's connector leaves such topics out, also those that are named
                existing[name] = [each.partition_index for each in topic.partitions]
        return selected(selection, existing)

    def earliest(self, partitions: Collection[TopicPartition]) -> OffsetMap:
        """Return the first offsets of logs."""
        found: OffsetMap = self._existing(self._hosted.consumer.beginning_offsets, partitions)
        return found

    def latest(self, partitions: Collection[TopicPartition], known: Mapping[TopicPartition, int]) -> OffsetMap:
        """Return the ends of logs. A log that seems to end before a `known` offset is asked for again."""
        for attempt in range(1, self._options.attempts + 1):
            found: OffsetMap = self._existing(self._hosted.consumer.end_offsets, partitions)
            behind = {each: offset for each, offset in found.items() if offset < known.get(each, 0)}
            if not behind or attempt == self._options.attempts:
                break
            log.warning("%s: the log ends before an offset that was read; asking again", named(behind))
            time.sleep(self._options.retry_s)
        return found

    def resolved(self, limit: OffsetLimit, partitions: Collection[TopicPartition], *, starts: bool) -> OffsetMap:
        """Return the offsets of a limit. `starts` is true for a start, and false for an end.

        Raise DataLoss unless the limit names exactly the partitions, and ValueError for a time after the last record.
        """
        _check_specified(limit, partitions)
        match limit:
            case EveryPartition(offset):
                return self._ends(dict.fromkeys(partitions, offset))
            case SpecificOffsets(offsets):
                return self._ends(offsets)
            case EveryTimestamp(timestamp, falls_to_latest):
                return self._timed(dict.fromkeys(partitions, timestamp), falls_to_latest or not starts)
            case SpecificTimestamps(timestamps, falls_to_latest):
                return self._timed(timestamps, falls_to_latest or not starts)

    def _ends(self, offsets: Mapping[TopicPartition, int]) -> OffsetMap:
        """Return offsets, with the start or the end of a log for EARLIEST and LATEST."""
        earliest = self.earliest([each for each, offset in offsets.items() if offset == EARLIEST])
        latest = self.latest([each for each, offset in offsets.items() if offset == LATEST], {})
        known = {each: offset for each, offset in offsets.items() if offset not in (EARLIEST, LATEST)}
        return {**known, **earliest, **latest}

    def _timed(self, timestamps: Mapping[TopicPartition, int], falls_to_latest: bool) -> OffsetMap:
        found: dict[TopicPartition, TimedOffset | None]
        found = self._existing(self._hosted.consumer.offsets_for_times, timestamps)
        missing = [each for each, offset in found.items() if offset is None]
        if missing and not falls_to_latest:
            raise ValueError(
                f"No offset matched from request of topic-partition {missing[0]} and timestamp "
                f"{timestamps[missing[0]]}. Set startingOffsetsByTimestampStrategy to latest to start at the end of "
                "the log"
            )
        latest = self.latest(missing, {})
        return {each: offset.offset for each, offset in found.items() if offset is not None} | latest

    def _existing(self, function: Callable[..., Any], partitions: Collection[TopicPartition]) -> Any:
        """Return what a call finds for partitions, without those that are deleted meanwhile. Raise DataLoss for these.

        `partitions` may map them to more arguments. DataLoss is not raised if `failOnDataLoss` is false.
        """
        found, deleted = self._ask(of_existing, self._hosted.shell, function, partitions)
        if deleted:
            sentence = f"Partitions {named(dict.fromkeys(deleted, 0))} have been deleted."
            report_losses([sentence], fails=self._options.fails_on_loss)
        return found

    def _ask(self, function: Callable[..., Any], *args: Any, timed: bool = False) -> Any:
        """Return the result of a call in the background, which is repeated if it times out."""
        timeout_s = self._hosted.settings.default_api_timeout_ms / 1000
        for attempt in range(1, self._options.attempts + 1):
            try:
                return self._hosted.ask(function, *args, **({"timeout_s": timeout_s} if timed else {}))
            except ConsumerTimeout as error:
                if attempt == self._options.attempts:
                    raise _unanswered(self._options, error) from error
                log.warning("attempt %s of a look-up of offsets has failed: %s", attempt, error)
                time.sleep(self._options.retry_s)
        raise AssertionError("the last attempt returns or raises")


def _unanswered(options: ReadOptions, error: ConsumerTimeout) -> ConsumerTimeout:
    servers = options.consumer["bootstrap.servers"]
    return ConsumerTimeout(f"kafka.bootstrap.servers={servers}: {error}")


def _check_specified(limit: OffsetLimit, partitions: Collection[TopicPartition]) -> None:
    """Raise DataLoss unless a limit with single partitions names exactly those of the query."""
    found = specified(limit)
    if found is not None and found.keys() != set(partitions):
        raise DataLoss(
            "Partitions specified for Kafka offsets don't match what are assigned. Maybe topic partitions are created "
            "or deleted while the query is running, or you didn't specify all the partitions. Use -1 for latest, -2 "
            f"for earliest. Specified: {named(found)} Assigned: {named(dict.fromkeys(partitions, 0))}"
        )
