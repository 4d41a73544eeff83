"""AlterReplicaLogDirs: one result for each named partition. `tests/unit/replica/placing` covers the moves."""

from __future__ import annotations

from typing import Any

import pytest

from pykbroker.apis.cluster.alter_replica_log_dirs import AlterReplicaLogDirs
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from tests.unit.apis.calling import context, gone_through, work_of
from wire.error_codes import ErrorCode
from wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)

REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def asking(*dirs: tuple[str, str, list[int]]) -> AlterReplicaLogDirsRequest:
    return AlterReplicaLogDirsRequest(
        [AlterReplicaLogDir(path, [AlterReplicaLogDirTopic(topic, indexes)]) for path, topic, indexes in dirs]
    )


def codes(response: Any) -> list[tuple[str, int, int]]:
    assert isinstance(response, AlterReplicaLogDirsResponse)
    return [
        (topic.topic_name, one.partition_index, one.error_code)
        for topic in response.results
        for one in topic.partitions
    ]


class Moving:
    """A double of the replicas that refuses to move partition 7."""

    def __init__(self) -> None:
        self.moves: list[tuple[str, int, str]] = []

    async def move(self, key: TopicPartition, path: str) -> None:
        self.moves.append((*key, path))
        if key.partition == 7:
            raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND)


@pytest.mark.parametrize(
    ("request_", "moves", "answered"),
    [
        (asking(), [], []),
        (asking(("/a", "t", [])), [], []),
        (
            asking(("/a", "t", [1, 7]), ("/b", "u", [1]), ("/a", "t", [2])),
            [("t", 1, "/a"), ("t", 7, "/a"), ("u", 1, "/b"), ("t", 2, "/a")],
            [("t", 1, 0), ("t", 7, ErrorCode.LOG_DIR_NOT_FOUND), ("t", 2, 0), ("u", 1, 0)],
        ),
        (asking(("/a", "t", [1, 1]), ("/b", "t", [1])), [("t", 1, "/b")], [("t", 1, 0)]),
    ],
)
async def test_each_partition_is_moved_once(
    request_: AlterReplicaLogDirsRequest, moves: list[Any], answered: list[Any]
) -> None:
    replicas: Any = Moving()
    held = AlterReplicaLogDirs(replicas)(context(2), request_)
    assert codes(gone_through(await work_of(held))) == answered
    assert replicas.moves == moves
