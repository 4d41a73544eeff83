"""The messages of AlterReplicaLogDirs (API key 34), versions 1-2, flexible from version 2.

- Version 2 is flexible.
"""

from wire.declare import Int16, Int32, Request, Response, Struct


class AlterReplicaLogDirTopic(Struct):
    name: str = ""
    partitions: list[Int32] = []


class AlterReplicaLogDir(Struct):
    path: str = ""
    topics: list[AlterReplicaLogDirTopic] = []


class AlterReplicaLogDirsRequest(Request["AlterReplicaLogDirsResponse"]):
    dirs: list[AlterReplicaLogDir] = []


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = []


class AlterReplicaLogDirsResponse(Response):
    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = []
