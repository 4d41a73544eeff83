"""AlterReplicaLogDirs (34), versions 1-2, flexible from 2.

v2   flexible
"""

from typing import ClassVar

from wire.api import ApiKey
from wire.declare import Int16, Int32, Request, Response, Struct


class AlterReplicaLogDirTopic(Struct):
    """Each of `AlterReplicaLogDir.topics`."""

    name: str = ""
    partitions: list[Int32] = []


class AlterReplicaLogDir(Struct):
    """Each of `AlterReplicaLogDirsRequest.dirs`."""

    path: str = ""
    topics: list[AlterReplicaLogDirTopic] = []


class AlterReplicaLogDirsRequest(Request):
    """What a client asks."""

    key: ClassVar = ApiKey.ALTER_REPLICA_LOG_DIRS
    versions: ClassVar = "1-2"
    flexible: ClassVar = "2+"

    dirs: list[AlterReplicaLogDir] = []


class AlterReplicaLogDirPartitionResult(Struct):
    """Each of `AlterReplicaLogDirTopicResult.partitions`."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


class AlterReplicaLogDirTopicResult(Struct):
    """Each of `AlterReplicaLogDirsResponse.results`."""

    topic_name: str = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = []


class AlterReplicaLogDirsResponse(Response):
    """What it is answered."""

    key: ClassVar = ApiKey.ALTER_REPLICA_LOG_DIRS
    versions: ClassVar = "1-2"
    flexible: ClassVar = "2+"

    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = []
