"""KafkaConsumer on a cluster in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykbroker.consumer import hosted
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.kafka import KafkaConsumer
from pykbroker.kafka.records import sizes
from tests.unit.producer.hosted import HostedNet
from wire.records.builder import BatchBuilder

PLACE = TopicPartition("topic", 0)
RECORDS, WAIT_MS = 10, 10_000


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaConsumer]:
    """Yield a consumer at the start of a partition with some records."""
    net = HostedNet()
    monkeypatch.setattr(hosted, "system_client_world", net.world)
    with KafkaConsumer(
        bootstrap_servers="node1:9092", group_id="group", enable_auto_commit=False, max_poll_records=3
    ) as found:
        net.wait_running()
        builder = BatchBuilder()
        for number in range(RECORDS):
            builder.append(None, b"%d" % number, (), 1)
        state = net.cluster.state
        state.log(PLACE).append(builder.build(), state.leader_epoch(PLACE), None)
        found.assign([PLACE])
        found.seek(PLACE, 0)
        yield found


@pytest.mark.parametrize(
    "call", [lambda each: each.commit(), lambda each: each.poll(), lambda each: each.commit_async()]
)
def test_a_call_runs_the_callbacks_of_commits_that_are_done(
    consumer: KafkaConsumer, call: Callable[[KafkaConsumer], Any]
) -> None:
    assert next(consumer).offset == 0  # and others of the same poll are left for the next one
    done: list[Any] = []
    consumer.commit_async(callback=lambda offsets, result: done.append((offsets[PLACE].offset, result))).get(10)
    assert not done
    call(consumer)
    assert done == [(1, None)]


@pytest.mark.parametrize("count", [0, -1, "1", 1.5])
def test_columns_of_no_number_of_records_are_refused(consumer: KafkaConsumer, count: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=f"max_records={count!r} must be"):
        consumer.poll_columns(max_records=count)
    assert sum(map(len, consumer.poll_columns(WAIT_MS, max_records=4))) == 4


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ([], []),
        ([b"", b"ab"], [0, 2]),
        ([None, None], [-1, -1]),
        ([None, b""], [-1, 0]),
        ([b"", None, b"abc"], [0, -1, 3]),
    ],
)
def test_the_size_of_a_missing_key_is_minus_one(column: list[bytes | None], expected: list[int]) -> None:
    assert sizes(column) == expected
