"""AlterReplicaLogDirs (34), v1-2: move replicas to other log directories of this broker (KIP-113).

v2 flexible
The response says whether the move has started; DescribeLogDirs reports how far the new copy lags behind. Naming the
current directory cancels a move. A partition that is named for several directories moves to the last of them. A
cordoned directory is refused with INVALID_REPLICA_ASSIGNMENT (KIP-1066).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.replicas import Replicas
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext, now_or_later
from wire.error_codes import ErrorCode
from wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

AT_ONCE_MAX = 256
"""The number of partitions of a request that are read before the handler yields to other tasks."""


class AlterReplicaLogDirs(ApiHandler, frozen=True):
    """A handler that moves each partition independently and returns an error code for each."""

    replicas: Replicas

    def __call__(self, context: RequestContext, request: AlterReplicaLogDirsRequest) -> Later:
        return Later(self._answer(context, request), holds_connection=True)

    async def _answer(self, context: RequestContext, request: AlterReplicaLogDirsRequest) -> Answer:
        wanted: dict[TopicPartition, str] = {}
        for count, (key, path) in enumerate(named(request), 1):
            wanted[key] = path
            if count % AT_ONCE_MAX == 0:
                await trio.lowlevel.checkpoint()
        return now_or_later(answer({key: await self._move(key, path) for key, path in wanted.items()}))

    async def _move(self, key: TopicPartition, path: str) -> ErrorCode:
        try:
            await self.replicas.move(key, path)
        except ApiError as error:
            return error.code
        return ErrorCode.NONE


def named(request: AlterReplicaLogDirsRequest) -> Iterator[tuple[TopicPartition, str]]:
    """Yield each (topic, partition) with the path of its new directory."""
    return (
        (TopicPartition(topic.name, index), directory.path)
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    )


def answer(codes: dict[TopicPartition, ErrorCode]) -> Generator[None, None, AlterReplicaLogDirsResponse]:
    """Return the response for the error code of each (topic, partition), grouped by topic."""
    topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for (topic, index), code in codes.items():
        topics.setdefault(topic, []).append(AlterReplicaLogDirPartitionResult(index, code))
        yield
    return AlterReplicaLogDirsResponse(results=[AlterReplicaLogDirTopicResult(*one) for one in topics.items()])
