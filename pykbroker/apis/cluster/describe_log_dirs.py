"""DescribeLogDirs (35), v1-5: return the size of each requested partition in each log directory.

v2 flexible   v3 top-level error   v4 total and usable bytes (KIP-827)   v5 cordoned (KIP-1066)
Null topics request all partitions. Partitions that a directory does not hold are left out, and so are empty topics.
"""

from __future__ import annotations

from collections.abc import Generator

from pykbroker.core.steps import Steps
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.placing.move import Move
from pykbroker.replica.replicas import Replicas
from pykbroker.server.handler import Answer, ApiHandler, RequestContext, now_or_later
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.world.disk import Disk
from wire.error_codes import ErrorCode
from wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


class DescribeLogDirs(ApiHandler, frozen=True):
    """A handler that describes `directories`; `disks` has one disk for each, in the same order.

    `refused` are the paths that could not be opened at start.
    """

    directories: tuple[LogDirectory, ...]
    disks: tuple[Disk, ...]
    refused: tuple[str, ...]
    replicas: Replicas

    def __call__(self, context: RequestContext, request: DescribeLogDirsRequest) -> Answer:
        wanted: set[TopicPartition] | None = None
        if request.topics is not None:
            wanted = {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
        return now_or_later(self._describe_all(wanted))

    def _describe_all(self, wanted: set[TopicPartition] | None) -> Steps[Answer]:
        response = DescribeLogDirsResponse()
        for directory, disk in zip(self.directories, self.disks, strict=True):
            response.results.append((yield from self._describe(directory, disk, wanted)))
        response.results += map(offline, self.refused)
        return response

    def _describe(
        self, directory: LogDirectory, disk: Disk, wanted: set[TopicPartition] | None
    ) -> Generator[None, None, DescribeLogDirsResult]:
        if directory.failed is not None:
            return offline(directory.path)
        try:
            total_bytes, usable_bytes = disk.total_bytes(), disk.free_bytes()
        except OSError:
            return offline(directory.path)
        topics: dict[str, list[DescribeLogDirsPartition]] = {}
        for partition in self.replicas.online(directory):
            if wanted is None or partition.key in wanted:
                topics.setdefault(partition.topic, []).append(described(partition))
            yield
        for move in self.replicas.moves.into(directory):
            if wanted is None or move.key in wanted:
                topics.setdefault(move.partition.topic, []).append(described_copy(move))
        return DescribeLogDirsResult(
            ErrorCode.NONE,
            directory.path,
            [DescribeLogDirsTopic(*topic) for topic in topics.items()],
            total_bytes,
            usable_bytes,
            self.replicas.places.is_cordoned(directory),
        )


def offline(path: str) -> DescribeLogDirsResult:
    """Return the result of a failed directory: KAFKA_STORAGE_ERROR and no topics."""
    return DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, path)


def described_copy(move: Move) -> DescribeLogDirsPartition:
    """Return the size in bytes and the offset lag of a copy that AlterReplicaLogDirs has not completed yet."""
    log = move.partition.log
    lag = 0 if log is None else max(0, log.log_end_offset - move.log.log_end_offset)
    return DescribeLogDirsPartition(move.partition.index, move.log.size_bytes, lag, True)


def described(partition: Partition) -> DescribeLogDirsPartition:
    """Return the size of a log in bytes, and how many offsets its end lies behind the high watermark."""
    log = partition.log
    if log is None:  # deleted since it was listed
        return DescribeLogDirsPartition(partition.index, 0, 0)
    lag = max(0, partition.high_watermark - log.log_end_offset)
    return DescribeLogDirsPartition(partition.index, log.size_bytes, lag)
