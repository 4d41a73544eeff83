"""DescribeProducers: the producer state of a partition's log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykbroker.apis.records.describe_producers import DescribeProducers
from pykbroker.core.log.producers import Producers
from pykbroker.core.security.operation import Operation
from tests.unit.apis.calling import Denies, context, gone_through
from tests.unit.apis.conftest import Client, batch
from wire.error_codes import ErrorCode
from wire.messages.describe_producers import DescribeProducersRequest, PartitionResponse, ProducerState, TopicRequest

STAMP_MS = 1_700_000_000_000


async def describe(client: Client, topic: str, *partitions: int) -> list[PartitionResponse]:
    request = DescribeProducersRequest(topics=[TopicRequest(topic, list(partitions))])
    (answer,) = (await client.call(request, 0)).topics
    assert answer.name == topic
    found: list[PartitionResponse] = answer.partitions
    return found


def numbered(producer_id: int, epoch: int, sequence: int, *values: bytes, **fields: Any) -> bytes:
    return batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **fields)


async def test_producers_are_described_by_their_last_batch(client: Client) -> None:
    await client.produce("a", numbered(7, 0, 0, b"1", b"2"))
    await client.produce("a", numbered(7, 0, 2, b"3"))
    await client.produce("a", numbered(8, 3, 5, b"4"))
    await client.produce("a", batch(b"nobody's"))
    (answer,) = await describe(client, "a", 0)
    assert answer.active_producers == [
        ProducerState(7, 0, 2, STAMP_MS, -1, -1),
        ProducerState(8, 3, 5, STAMP_MS, -1, -1),
    ]
    assert (answer.error_code, answer.error_message) == (0, None)


def test_an_open_transaction_has_a_start_offset_and_a_marker_has_a_coordinator_epoch() -> None:
    producers = Producers()
    producers.remember(7, 1, 0, 30, 4, STAMP_MS, transactional=True)
    producers.remember(8, 0, 0, 35, 0, STAMP_MS, transactional=True)
    producers.remember_marker(8, 1, 12, 36, STAMP_MS + 1, aborted=False)
    log = SimpleNamespace(producers=producers)
    replicas: Any = SimpleNamespace(partition=lambda *_: SimpleNamespace(require_leader=lambda: log))
    image: Any = SimpleNamespace(topics=SimpleNamespace(by_name={"a"}))
    api = DescribeProducers(lambda: image, replicas)
    (answer,) = gone_through(api(context(0), DescribeProducersRequest([TopicRequest("a", [0])]))).topics[0].partitions
    assert answer.active_producers == [
        ProducerState(7, 1, 4, STAMP_MS, -1, 30),
        ProducerState(8, 1, -1, STAMP_MS + 1, 12, -1),
    ]


async def test_an_unknown_partition_does_not_affect_the_others(client: Client) -> None:
    await client.produce("a", numbered(7, 0, 0, b"1"), partition=1)
    answers = await describe(client, "a", 0, 1, 4, -1)
    assert [(one.partition_index, one.error_code, len(one.active_producers)) for one in answers] == [
        (0, 0, 0),
        (1, 0, 1),
        (4, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
        (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
    ]


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        ("nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
        (
            "bad name",
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: 'bad name' contains one or more characters"
            " other than ASCII alphanumerics, '.', '_' and '-'",
        ),
    ],
)
async def test_unknown_topics_are_refused(client: Client, topic: str, code: ErrorCode, message: str) -> None:
    answers = await describe(client, topic, 0, 1)
    assert [(one.partition_index, one.error_code, one.error_message) for one in answers] == [
        (0, code, message),
        (1, code, message),
    ]


def test_a_client_without_read_on_the_topic_is_refused() -> None:
    nothing: Any = None
    api = DescribeProducers(nothing, nothing)
    request = DescribeProducersRequest(topics=[TopicRequest("a", [0])])
    (answer,) = gone_through(api(context(0, Denies(Operation.READ)), request)).topics[0].partitions
    assert (answer.error_code, answer.active_producers) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])
