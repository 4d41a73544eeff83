"""The messages of AlterReplicaLogDirs (API key 34), versions 1-2, flexible from version 2.

- Version 2 is flexible.
"""

from typing import ClassVar

from wire.api import ApiKey
from wire.declare import Int16, Int32, Request, Response, Struct


class AlterReplicaLogDirTopic(Struct):
    name: str = ""
    partitions: list[Int32] = []


class AlterReplicaLogDir(Struct):
    path: str = ""
    topics: list[AlterReplicaLogDirTopic] = []


class AlterReplicaLogDirsRequest(Request["AlterReplicaLogDirsResponse"]):
    key: ClassVar = ApiKey.ALTER_REPLICA_LOG_DIRS
    versions: ClassVar = "1-2"
    flexible: ClassVar = "2+"

    dirs: list[AlterReplicaLogDir] = []


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = []


class AlterReplicaLogDirsResponse(Response):
    key: ClassVar = ApiKey.ALTER_REPLICA_LOG_DIRS
    versions: ClassVar = "1-2"
    flexible: ClassVar = "2+"

    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = []
