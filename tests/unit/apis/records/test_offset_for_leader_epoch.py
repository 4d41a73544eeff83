"""OffsetForLeaderEpoch: end offsets of leader epochs, fenced and unknown epochs, and authorization."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pykbroker.apis.records.offset_for_leader_epoch import OffsetForLeaderEpoch
from pykbroker.core.log.epochs import OffsetAndEpoch
from pykbroker.core.security.operation import Operation
from tests.unit.apis.calling import Denies, context, gone_through
from tests.unit.apis.conftest import Client, batch, serving
from wire.error_codes import ErrorCode
from wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

UNKNOWN = (-1, -1)


def asking(
    epoch: int, *, topic: str = "a", partition: int = 0, current: int = -1, replica_id: int = -2
) -> OffsetForLeaderEpochRequest:
    wanted = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    return OffsetForLeaderEpochRequest(replica_id=replica_id, topics=[OffsetForLeaderTopic(topic, [wanted])])


async def ask(client: Client, epoch: int, version: int = 4, **fields: Any) -> tuple[int, int, int]:
    """Return (error code, leader epoch, end offset)."""
    response = await client.call(asking(epoch, **fields), version)
    (answer,) = response.topics[0].partitions
    assert (response.topics[0].topic, answer.partition) == (fields.get("topic", "a"), fields.get("partition", 0))
    return answer.error_code, answer.leader_epoch, answer.end_offset


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("replica_id", [-2, -1, 1])
async def test_the_current_epoch_ends_at_the_log_end_offset(client: Client, version: int, replica_id: int) -> None:
    await client.produce("a", batch(b"1", b"2", b"3"))
    assert await ask(client, 0, version, replica_id=replica_id) == (0, 0, 3)


async def test_an_older_epoch_ends_where_the_next_epoch_begins(tmp_path: Path) -> None:
    ends = []
    for count in (2, 0, 3):
        async with serving(tmp_path, topics=(("a", 1),)) as local_broker:
            client = await local_broker.connect()
            for _ in range(count):
                await client.produce("a", batch(b"x"))
            epoch = (await client.fetch("a", 0)).records
            assert epoch is not None
            ends.append([await ask(client, number) for number in range(8)])
    last = [end for _, _, end in ends[-1]]
    assert (last[0], max(last)) == (2, 5)
    assert sorted(end for end in last if end >= 0) == [end for end in last if end >= 0]
    assert all(answer == (0, *UNKNOWN) for answer in ends[-1][last.index(5) + 1 :])


@pytest.mark.parametrize(("epoch", "answer"), [(1, UNKNOWN), (99, UNKNOWN), (-1, UNKNOWN), (-5, (-5, 0))])
async def test_an_unknown_leader_epoch_has_no_end_offset(client: Client, epoch: int, answer: tuple[int, int]) -> None:
    await client.produce("a", batch(b"x"))
    assert await ask(client, epoch) == (0, *answer)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"current": 0}, ErrorCode.NONE),
        ({"current": 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"current": -2}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"partition": 4}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topic": "nobody"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topic": "bad name"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_unknown_partitions_and_wrong_leader_epochs_are_refused(
    client: Client, fields: dict[str, Any], code: ErrorCode
) -> None:
    answer = await ask(client, 0, **fields)
    assert answer == (code, *((0, 0) if code == ErrorCode.NONE else UNKNOWN))


async def test_an_old_leader_epoch_is_fenced(tmp_path: Path) -> None:
    for first in (True, False):
        async with serving(tmp_path, topics=(("a", 1),)) as local_broker:
            client = await local_broker.connect()
            code = ErrorCode.NONE if first else ErrorCode.FENCED_LEADER_EPOCH
            assert (await ask(client, 0, current=0))[0] == code


async def test_each_repeated_partition_has_its_own_result(client: Client) -> None:
    request = asking(0)
    request.topics += asking(0, partition=9).topics + asking(0).topics
    response = await client.call(request, 4)
    assert [topic.partitions[0].error_code for topic in response.topics] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]


@pytest.mark.parametrize(
    ("denied", "code"),
    [
        ((Operation.DESCRIBE,), ErrorCode.NONE),
        ((Operation.CLUSTER_ACTION,), ErrorCode.NONE),
        ((Operation.DESCRIBE, Operation.CLUSTER_ACTION), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_the_request_needs_cluster_action_or_describe_on_the_topic(
    denied: tuple[Operation, ...], code: ErrorCode
) -> None:
    log = SimpleNamespace(reader=SimpleNamespace(end_offset_for_epoch=lambda epoch: OffsetAndEpoch(7, epoch)))
    replicas: Any = SimpleNamespace(partition=lambda *_: SimpleNamespace(require_leader=lambda _: log))
    response = gone_through(OffsetForLeaderEpoch(replicas)(context(4, Denies(*denied)), asking(0)))
    assert response.topics[0].partitions[0].error_code == code
