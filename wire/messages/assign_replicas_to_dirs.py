"""The messages of AssignReplicasToDirs (API key 73), version 0, flexible."""

from wire.declare import NIL, UUID, Int16, Int32, Int64, Request, Response, Struct


class AssignReplicasToDirsRequestPartitionData(Struct):
    partition_index: Int32 = 0


class AssignReplicasToDirsRequestTopicData(Struct):
    topic_id: UUID = NIL
    partitions: list[AssignReplicasToDirsRequestPartitionData] = []


class AssignReplicasToDirsRequestDirectoryData(Struct):
    id: UUID = NIL
    topics: list[AssignReplicasToDirsRequestTopicData] = []


class AssignReplicasToDirsRequest(Request["AssignReplicasToDirsResponse"]):
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    directories: list[AssignReplicasToDirsRequestDirectoryData] = []


class AssignReplicasToDirsResponsePartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class AssignReplicasToDirsResponseTopicData(Struct):
    topic_id: UUID = NIL
    partitions: list[AssignReplicasToDirsResponsePartitionData] = []


class AssignReplicasToDirsResponseDirectoryData(Struct):
    id: UUID = NIL
    topics: list[AssignReplicasToDirsResponseTopicData] = []


class AssignReplicasToDirsResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    directories: list[AssignReplicasToDirsResponseDirectoryData] = []
