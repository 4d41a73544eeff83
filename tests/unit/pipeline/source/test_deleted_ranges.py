"""Ranges of partitions that are deleted before they are read, and topics that no query reads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pykbroker.core.consumer.errors import ConsumerTimeout, OffsetsOutOfRange
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.kafka import KafkaProducer
from pykbroker.pipeline.cluster import ClusterFacts, LogEnds, PipelineCluster
from pykbroker.pipeline.source import deletions, range_reader
from pykbroker.pipeline.source.deletions import unknown_partitions
from pykbroker.pipeline.source.errors import DataLoss, ReadStalled
from pykbroker.pipeline.source.lookups import OffsetLookup
from pykbroker.pipeline.source.offset_limits import LATEST, EveryPartition, EveryTimestamp
from pykbroker.pipeline.source.offset_ranges import TaskRange
from pykbroker.pipeline.source.range_reader import RangeReader, read_range
from pykbroker.pipeline.source.read_options import ReadOptions, batch_options
from pykbroker.testing import RunningBroker, running_broker
from wire.error_codes import ErrorCode
from wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

pytest.importorskip("pyarrow")

SLOW_S = 30.0
DELETED = TopicPartition("out", 0)


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with running_broker(configs={"auto.create.topics.enable": "false"}) as run:
        yield run


@pytest.fixture(autouse=True)
def _looks_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletions, "LOOK_S", 0.1)


def options(broker: RunningBroker, topic: str, **more: str) -> ReadOptions:
    return batch_options({"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, **more})


@pytest.mark.parametrize("name", ["gone", "kept"])
def test_a_deleted_partition_is_data_loss_within_seconds(broker: RunningBroker, name: str) -> None:
    if name == "kept":
        broker.topic(name, partitions=1)
    deleted = TaskRange(TopicPartition(name, 0 if name == "gone" else 7), 3, 10)
    begun = time.monotonic()
    with pytest.raises(
        DataLoss, match=rf"offset \[3, 10\) for topic partition {name}-\d\. The partition was deleted\."
    ):
        list(read_range(deleted, options(broker, name)))
    assert list(read_range(deleted, options(broker, name, failondataloss="false"))) == []
    assert time.monotonic() - begun < SLOW_S  # the time-outs of a consumer alone take 180 s


def test_a_partition_that_is_deleted_while_lost_records_are_looked_for_is_data_loss_within_seconds(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_range(_: RangeReader) -> int:
        raise OffsetsOutOfRange({DELETED: 3}, "out of range")

    monkeypatch.setattr(RangeReader, "_polled", out_of_range)
    begun = time.monotonic()
    with pytest.raises(DataLoss, match=r"offset \[3, 10\) for topic partition out-0\. The partition was deleted\."):
        list(read_range(TaskRange(DELETED, 3, 10), options(broker, "out")))
    reader = RangeReader(TaskRange(DELETED, 3, 10), options(broker, "out", failondataloss="false"))
    try:
        assert reader._without_progress(3) == 10
    finally:
        reader.close()
    assert time.monotonic() - begun < SLOW_S  # the time-out of a consumer is 60 s


def test_a_partition_that_is_deleted_while_a_query_is_planned_is_data_loss_within_seconds(
    broker: RunningBroker,
) -> None:
    broker.topic("there", partitions=1)
    there, gone = TopicPartition("there", 0), TopicPartition("lost", 0)
    begun = time.monotonic()
    with OffsetLookup(options(broker, "there")) as lookup:
        for look_up in (lookup.earliest, lambda each: lookup.latest(each, {})):
            with pytest.raises(DataLoss, match=r"Partitions \[lost-0\] have been deleted\."):
                look_up([there, gone])
    with OffsetLookup(options(broker, "there", failondataloss="false")) as lookup:
        assert lookup.earliest([there, gone]) == lookup.latest([gone, there], {}) == {there: 0}
        for limit in (EveryPartition(LATEST), EveryTimestamp(5, True)):
            assert lookup.resolved(limit, [there, gone], starts=True) == {there: 0}
    assert time.monotonic() - begun < SLOW_S  # each of them alone takes 180 s by the time-outs of a consumer


def test_the_ends_of_topics_leave_out_what_is_deleted_meanwhile_within_seconds(broker: RunningBroker) -> None:
    broker.topic("left", partitions=1)
    facts = ClusterFacts("c", {}, {"left": 2, "lost": 1})
    begun = time.monotonic()
    left = {TopicPartition("left", 0): 0}
    assert PipelineCluster(broker.bootstrap).ends(facts) == LogEnds(left, left)
    assert time.monotonic() - begun < SLOW_S  # the time-out of a consumer is 60 s


def test_a_partition_is_unknown_if_no_broker_of_most_has_it() -> None:
    """A broker with old metadata may lack a new topic, and one that cannot tell says nothing."""
    one, two = TopicPartition("a", 0), TopicPartition("a", 1)
    has_one = [MetadataResponseTopic(name="a", partitions=[MetadataResponsePartition(partition_index=0)])]
    lacks = [MetadataResponseTopic(name="a", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    is_unsure = [MetadataResponseTopic(name="a", error_code=ErrorCode.LEADER_NOT_AVAILABLE)]
    for answers, brokers, unknown in (
        ([lacks], 1, {one, two}),
        ([lacks], 2, set()),
        ([lacks], 3, set()),
        ([lacks, lacks], 3, {one, two}),
        ([lacks, has_one], 3, {two}),
        ([lacks, is_unsure, lacks], 3, set()),
        ([lacks, [], lacks], 3, set()),
        ([], 0, set()),
    ):
        assert unknown_partitions([one, two], answers, brokers) == unknown


@pytest.mark.parametrize(("log", "match"), [((0, 9), r"offsets \[0, 9\)"), (None, "No broker says which offsets")])
def test_a_read_stalls_after_its_time_also_if_no_broker_answers(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, log: tuple[int, int] | None, match: str
) -> None:
    """A poll and a question about the partition take a second each, which the time of the read includes."""
    now = [0.0]

    def ask(function: Any, *arguments: Any, timeout_s: float = 0.0) -> Any:
        now[0] += timeout_s or arguments[-1]
        if timeout_s and log is None:
            raise ConsumerTimeout("no answer")
        return log if timeout_s else frozenset()

    def polled(self: RangeReader) -> int:
        now[0] += 1.0
        return 0

    monkeypatch.setattr(deletions, "LOOK_S", 1.0)
    monkeypatch.setattr(range_reader, "time", SimpleNamespace(monotonic=lambda: now[0]))
    reader = RangeReader(
        TaskRange(TopicPartition("x", 0), 0, 1), options(broker, "x", **{"kafkaconsumer.polltimeoutms": "20500"})
    )
    reader.close()
    hosted = SimpleNamespace(ask=ask, shell=None)
    monkeypatch.setattr(reader, "_hosted", hosted)
    monkeypatch.setattr(RangeReader, "_polled", polled)
    with pytest.raises(ReadStalled, match=f"in 20500 milliseconds.*{match}"):
        reader._next_position(0)
    assert now[0] <= 20.5 + 1.0 + range_reader.LOG_S_MAX


def test_what_was_read_before_a_deletion_is_kept(broker: RunningBroker) -> None:
    broker.topic("orders", partitions=1)
    with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        for row in range(5):
            producer.send("orders", b"%d" % row)
    reader = RangeReader(
        TaskRange(TopicPartition("orders", 0), 0, 10), options(broker, "orders", failondataloss="false")
    )
    try:
        parts = reader.parts()
        found = next(parts)
        broker.delete(["orders"])
        rest = list(parts)
    finally:
        reader.close()
    assert [value for part in found for value in part.values] == [b"%d" % row for row in range(5)]
    assert rest == []


def test_a_partition_that_exists_and_stands_still_is_no_loss(broker: RunningBroker) -> None:
    """The end of a log that has the offset of a range, which no reader gets, is a stalled read as before."""
    broker.topic("open", partitions=1)
    with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("open", b"0").get(10)
    stalled = options(broker, "open", **{"kafkaconsumer.polltimeoutms": "500"})
    reader = RangeReader(TaskRange(TopicPartition("open", 0), 0, 1), stalled)
    try:
        with pytest.raises(ReadStalled, match="in 500 milliseconds"):
            reader._without_progress(0)
    finally:
        reader.close()


def test_topics_of_the_brokers_themselves_are_left_out_as_by_spark(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    internal, parts = "__consumer_offsets", [MetadataResponsePartition(partition_index=0)]
    described = [
        MetadataResponseTopic(name="plain", partitions=parts),
        MetadataResponseTopic(name=internal, is_internal=True, partitions=parts),
    ]
    monkeypatch.setattr(OffsetLookup, "_ask", lambda self, function, *args, timed: described)
    assigned = batch_options({"kafka.bootstrap.servers": broker.bootstrap, "assign": f'{{"{internal}":[0]}}'})
    for selected, found in ((options(broker, f"plain,{internal}"), ["plain"]), (assigned, [])):
        with OffsetLookup(selected) as lookup:
            assert [each.topic for each in lookup.partitions()] == found
