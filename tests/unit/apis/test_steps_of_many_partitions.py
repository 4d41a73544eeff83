"""Requests that name thousands of partitions: the handler goes through them in several steps, and other tasks run
between.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio

from pykbroker.apis.cluster.alter_replica_log_dirs import AT_ONCE_MAX, AlterReplicaLogDirs
from pykbroker.apis.transactions.add_partitions_to_txn import AddPartitionsToTxn
from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.image import MetadataImage, PartitionImage, TopicImage, TopicsImage
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.core.txn.requests import TransactionAnswer, Verified
from pykbroker.server.handler import EncodedResponse, Later, resolve
from pykbroker.server.table import JOINED_BYTES_MAX, PARTS_MAX, Route
from pykbroker.world import portions
from tests.unit.apis.calling import context, work_of
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from wire.messages.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic

MANY = 20_000
PORTIONS = MANY // portions.AT_ONCE_MAX
THERE = PartitionImage((1,), (1,), 1, 0, 0)
TOPIC = TopicImage("t", bytes(16), {0: THERE, 1: THERE})
IMAGE = MetadataImage(topics=TopicsImage({"t": TOPIC}, {}))


class Coordinator:
    """A double of the coordinator that accepts all partitions and records the request."""

    def ask(self, request: Any, respond: Any) -> Any:
        self.asked = request
        return respond(TransactionAnswer())

    async def send_all(self, requests: list[Any]) -> list[Any]:
        return [Verified(frozenset()) for _ in requests]


def asking(indexes: list[int]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x", v3_and_below_topics=[AddPartitionsToTxnTopic("t", indexes)]
    )


def counted(steps: Any) -> tuple[int, Any]:
    """Return the number of steps, and the result of the last one."""
    count = 0
    if isinstance(steps, Later):
        steps = resolve(steps)
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            return count, finished.value
        count += 1


def added(indexes: list[int]) -> tuple[int, AddPartitionsToTxnResponse, Any]:
    coordinator: Any = Coordinator()
    handler = AddPartitionsToTxn(coordinator, lambda: IMAGE)
    steps: Any = handler(context(3), asking(indexes))
    count, response = counted(steps)
    return count, response, getattr(coordinator, "asked", None)


def codes(response: AddPartitionsToTxnResponse) -> list[int]:
    (topic,) = response.results_by_topic_v3_and_below
    return [one.partition_error_code for one in topic.results_by_partition]


def test_partitions_are_added_to_a_transaction_in_several_steps() -> None:
    count, response, asked = added([index % 2 for index in range(MANY)])
    assert asked.partitions == {("t", 0), ("t", 1)}
    assert codes(response) == [0] * MANY
    assert count >= 3 * PORTIONS


def test_partitions_of_a_transaction_are_refused_in_several_steps() -> None:
    count, response, asked = added(list(range(MANY)))
    assert asked is None
    assert codes(response) == [ErrorCode.OPERATION_NOT_ATTEMPTED] * 2 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * (
        MANY - 2
    )
    assert count >= 2 * PORTIONS


async def others_turns(answer: Any) -> tuple[int, Any]:
    """Run a coroutine; return how often other tasks ran meanwhile, and the result of the coroutine."""
    turns, found = 0, []

    async def run() -> None:
        found.append(await work_of(answer))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        while not found:
            await trio.lowlevel.checkpoint()
            turns += 1
    return turns, found[0]


async def test_partitions_that_a_broker_verifies_are_verified_in_several_steps() -> None:
    coordinator: Any = Coordinator()
    handler = AddPartitionsToTxn(coordinator, lambda: IMAGE)
    topics = [AddPartitionsToTxnTopic("t", [index % 2 for index in range(MANY)])]
    turns, response = await others_turns(
        handler(
            context(5),
            AddPartitionsToTxnRequest(
                transactions=[AddPartitionsToTxnTransaction("x", 1, 0, verify_only=True, topics=topics)]
            ),
        )
    )
    (result,) = response.results_by_transaction
    assert len(result.topic_results[0].results_by_partition) == MANY
    assert turns >= 3 * PORTIONS


async def test_moves_between_log_directories_are_started_in_several_steps() -> None:
    class Moving:
        async def move(self, key: TopicPartition, path: str) -> None:
            raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND)

    replicas: Any = Moving()
    held = AlterReplicaLogDirs(replicas)(
        context(2),
        AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir("/a", [AlterReplicaLogDirTopic("t", list(range(MANY)))])]),
    )
    turns, steps = await others_turns(held)
    assert turns >= MANY // AT_ONCE_MAX
    count, response = counted(steps)
    assert count == MANY
    assert len(response.results[0].partitions) == MANY


NOBODY: Any = None
HANDLER = AddPartitionsToTxn(NOBODY, lambda: IMAGE)


def test_the_buffers_of_a_large_response_are_joined_in_several_steps() -> None:
    response = AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                "t", [AddPartitionsToTxnPartitionResult(index, index % 7) for index in range(MANY)]
            )
        ]
    )
    route, whole = Route(ApiKey.ADD_PARTITIONS_TO_TXN, 3, HANDLER), list[bytes]()
    route.encode(response, whole)
    _, encoded = counted(route.encode_in_steps(response))
    assert b"".join(encoded.parts) == b"".join(whole)
    assert len(encoded.parts) <= PARTS_MAX + len(whole) // PARTS_MAX + 1 < len(whole)


@pytest.mark.parametrize(
    ("size", "buffers"), [(JOINED_BYTES_MAX - 1, 1), (JOINED_BYTES_MAX, 1), (JOINED_BYTES_MAX + 1, 3)]
)
def test_a_response_above_the_join_limit_is_sent_as_separate_buffers(size: int, buffers: int) -> None:
    route, out = Route(ApiKey.ADD_PARTITIONS_TO_TXN, 3, HANDLER), list[bytes]()
    route.frame(7, EncodedResponse([b"x", bytes(size - 1)]), out)
    assert len(out) == buffers
    head, body = b"".join(out)[:9], b"".join(out)[9:]
    assert (int.from_bytes(head[:4], "big"), head[4:]) == (size + 5, b"\0\0\0\7\0")
    assert body == b"x" + bytes(size - 1)
