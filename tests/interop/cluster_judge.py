"""Verdicts on a cluster after a load: nothing lost, doubled or reordered, and all replicas are equal."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient

from tests.interop.cluster_load import CALL_S_MAX, PARTITIONS, QUICK, Load, Writer

FULL_S_MAX = 60


def judge(load: Load) -> None:
    """Judge what the topics of a finished load contain."""
    ends = load.finish()
    source = read_logs(load.bootstrap, load.source)
    values = {index: [value for _, value in log] for index, log in source.items()}
    for index, log in source.items():
        assert [offset for offset, _ in log] == list(range(ends[index]))
        repeated = [value for value, count in Counter(values[index]).items() if count > 1]
        assert all(map(load.may_repeat, repeated)), f"partition {index} has records twice: {repeated[:3]}"
    for writer in load.writers:
        judge_writer(writer, values)
    assert load.seen == {(index, offset): value for index, log in source.items() for offset, value in log}
    copied = read_logs(load.bootstrap, load.copy)
    assert {index: [value for _, value in log] for index, log in copied.items()} == values


def judge_writer(writer: Writer, values: Mapping[int, list[bytes]]) -> None:
    """Judge the records of a writer: each acknowledged one is where it was acknowledged, and all are in order."""
    assert not writer.failed, f"{len(writer.failed)} records have failed: {writer.failed[:3]}"
    assert len(writer.acked) == writer.sent
    written = {index: set(found) for index, found in values.items()}
    lost = []
    for each in writer.acked:
        value, offset = writer.value(each.number), each.offset
        if value not in written[each.partition] or (offset is not None and values[each.partition][offset] != value):
            lost.append(each)
    assert not lost, f"{len(lost)} acknowledged records are lost: {lost[:3]}"
    for index, found in values.items():
        own = dict.fromkeys(value for value in found if value.startswith(writer.name.encode()))
        assert all(before < after for before, after in pairwise(own)), f"partition {index} is not in order"


def read_logs(bootstrap: str, topic: str) -> dict[int, list[tuple[int, bytes]]]:
    """Return the offset and value of all records that a read_committed consumer gets, by partition."""
    consumer = ck.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 10,
            **QUICK,
        }
    )
    consumer.assign([ck.TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    logs: dict[int, list[tuple[int, bytes]]] = {partition: [] for partition in range(PARTITIONS)}
    read, deadline = set[int](), time.monotonic() + CALL_S_MAX
    while len(read) < PARTITIONS:
        assert time.monotonic() < deadline, f"{topic}: only {read} are read to their ends"
        for message in consumer.consume(10_000, 0.1):
            deadline = time.monotonic() + CALL_S_MAX
            if message.error() is None:
                logs[message.partition()].append((message.offset(), message.value()))
            elif message.error().code() == ck.KafkaError._PARTITION_EOF:
                read.add(message.partition())
            else:
                raise ck.KafkaException(message.error())
    consumer.close()
    return logs


def wait_in_sync(bootstrap: str, within_s: float = FULL_S_MAX) -> None:
    """Wait until all replicas of all partitions are in the ISR, and every partition has a leader."""
    admin, deadline = AdminClient({"bootstrap.servers": bootstrap, **QUICK}), time.monotonic() + within_s
    while True:
        topics = admin.list_topics(timeout=CALL_S_MAX).topics.items()
        partitions = {f"{topic}-{index}": one for topic, each in topics for index, one in each.partitions.items()}
        behind = {
            name: (one.leader, one.replicas, one.isrs)
            for name, one in partitions.items()
            if one.leader < 0 or set(one.isrs) != set(one.replicas)
        }
        if not behind:
            return
        assert time.monotonic() < deadline, f"not in sync (leader, replicas, ISR): {behind}"
        time.sleep(0.05)


def judge_replicas(directories: Mapping[int, Path], load: Load) -> None:
    """Judge the replicas of the topics, which are in sync and no longer written: their batches are equal."""
    deadline = time.monotonic() + FULL_S_MAX
    for topic in (load.source, load.copy):
        for index in range(PARTITIONS):
            while len(found := {content(each / f"{topic}-{index}") for each in directories.values()}) != 1:
                assert time.monotonic() < deadline, f"{topic}-{index}: {[len(each) for each in found]} bytes differ"
                time.sleep(0.05)


def content(directory: Path) -> bytes:
    """Return the batches of a partition."""
    return b"".join(segment.read_bytes() for segment in sorted(directory.glob("*.log")))
