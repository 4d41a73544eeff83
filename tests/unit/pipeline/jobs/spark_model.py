"""A model of Spark's streams over topics: what the triggers do with a batch that a crash has left.

It writes the files of Spark's checkpoint, calls the job for each batch, and refuses what Spark refuses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

from pyspark.errors import PySparkRuntimeError

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.cluster import ClusterFacts, LogEnds
from pykbroker.pipeline.source.offset_json import OffsetMap, nested_of
from pykbroker.pipeline.source.stream_offsets import STARTING
from pykbroker.pipeline.spark_offsets import by_partition, last_done, left_batch, planned_ends, reached
from pykbroker.pipeline.storage import Storage

Kind = Literal["jvm", "python"]


class Ranges(dict[TopicPartition, tuple[int, int]]):
    """The records of a batch: the first offset of each partition, and the one behind the last. They need no session."""

    sparkSession = None


LOSS = "data may have been lost: set failOnDataLoss to false. Reason: "


class ModelTopics:
    """Topics, with the first and the next offset of each partition. It stands for the cluster of a job.

    Those that are `hidden` are in no metadata, but their leaders have them.
    """

    def __init__(self, **logs: tuple[int, int]) -> None:
        self.logs = {TopicPartition(name[:-1], int(name[-1])): ends for name, ends in logs.items()}
        self.hidden: dict[TopicPartition, tuple[int, int]] = {}

    def facts(self, wanted: Callable[[str], bool], *_: object) -> ClusterFacts:
        """Return the wanted topics."""
        topics = [key.topic for key in self.logs if wanted(key.topic)]
        return ClusterFacts("c", {name: f"id-{name}" for name in topics}, {name: topics.count(name) for name in topics})

    def first_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offsets of existing partitions. Those that are hidden are waited for."""
        logs = self.logs | self.hidden
        return {key: logs[key][0] for key in partitions if key in logs}

    def ends(self, facts: ClusterFacts) -> LogEnds:
        """Return the ends of the logs of some topics."""
        found = {key: ends for key, ends in self.logs.items() if key.topic in facts.topic_ids}
        return LogEnds({key: first for key, (first, _) in found.items()}, {key: end for key, (_, end) in found.items()})


class ModelQuery:
    """A query. Each call of `awaitTermination` runs one trigger."""

    def __init__(
        self,
        kind: Kind,
        checkpoint: Storage,
        topics: ModelTopics,
        trigger: Mapping[str, Any],
        write: Callable[[Ranges, int], None],
        *,
        fails_on_loss: bool,
    ) -> None:
        self._kind, self._checkpoint, self._topics, self._write = kind, checkpoint, topics, write
        self._fails_on_loss = fails_on_loss
        self._is_once = "availableNow" in trigger
        self._target = self._latest()
        self._begins: OffsetMap | None = None

    def _latest(self) -> OffsetMap:
        return {key: end for key, (_, end) in self._topics.logs.items()}

    def awaitTermination(self, _: float) -> bool:
        """Run a batch. Return whether the query has ended."""
        target = self._target if self._is_once else self._latest()
        left = left_batch(self._checkpoint)
        if left is not None:
            planned = by_partition(planned_ends(self._checkpoint, left))
            if self._is_once and self._kind == "jvm" and planned.keys() != target.keys():
                raise PySparkRuntimeError("Some of partitions in Kafka topic(s) have been lost or added: SPARK-53560")
            self._run(left, planned)
            return self._is_once and self._kind == "python"
        if target == reached(self._checkpoint):
            return self._is_once
        done = last_done(self._checkpoint)
        self._run(0 if done is None else done + 1, target)
        return False

    def stop(self) -> None:
        """Do nothing: no thread runs between two calls."""

    def _run(self, batch: int, ends: OffsetMap) -> None:
        logs = self._topics.logs | self._topics.hidden
        if left_batch(self._checkpoint) != batch:
            plan(self._checkpoint, batch, ends, {key: logs[key][0] for key in ends} if not batch else {}, self._kind)
        begins = self._begins  # a query reads its checkpoint when it starts
        if begins is None:
            begins = by_partition(planned_ends(self._checkpoint, batch - 1, or_start=True)) if batch else {}
        ranges = Ranges()
        for key, end in ends.items():
            is_lost = key not in logs or (batch > 0 and key not in begins and key in self._topics.hidden)
            first = end if is_lost else logs[key][0]
            begin = begins.get(key, 0 if batch else first)
            if self._fails_on_loss and begin < end and (begin < first or is_lost):
                raise PySparkRuntimeError(f"{LOSS}{key} starts from {first} instead of {begin}.")
            ranges[key] = (max(begin, first), end)
        if self._fails_on_loss and (gone := begins.keys() - ends.keys()):
            raise PySparkRuntimeError(f"{LOSS}Partitions {gone} have been deleted.")
        self._write(ranges, batch)
        self._checkpoint.write(f"spark/commits/{batch}", b'v1\n{"nextBatchWatermarkMs":0}')
        self._begins = ends


def plan(checkpoint: Storage, batch: int, ends: OffsetMap, starts: OffsetMap | None = None, kind: Kind = "jvm") -> None:
    """Write the ends of a batch to Spark's checkpoint, and the offsets at which the first one starts."""
    position: dict[str, Any] = nested_of(ends)
    checkpoint.write("spark/metadata", b'{"id":"0"}')
    if starts and kind == "jvm":
        checkpoint.write("spark/sources/0/0", f"\0v1\n{json.dumps(nested_of(starts))}".encode())
    elif starts:
        position = {STARTING: nested_of(starts)} | (position if ends != starts else {})
    checkpoint.write(f"spark/offsets/{batch}", f'v1\n{{"conf":{{}}}}\n{json.dumps(position)}'.encode())
