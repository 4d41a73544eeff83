"""The messages of DescribeQuorum (API key 55), versions 0-2, all flexible.

- Version 1 adds `last_fetch_timestamp` and `last_caught_up_timestamp` to the response.
- Version 2 adds `error_message`, `replica_directory_id`, and `nodes` to the response.
"""

from typing import Annotated

from wire.declare import NIL, UUID, Int16, Int32, Int64, Request, Response, Struct, UInt16, V


class DescribeQuorumRequestPartitionData(Struct):
    partition_index: Int32 = 0


class DescribeQuorumRequestTopicData(Struct):
    topic_name: str = ""
    partitions: list[DescribeQuorumRequestPartitionData] = []


class DescribeQuorumRequest(Request["DescribeQuorumResponse"]):
    topics: list[DescribeQuorumRequestTopicData] = []


class ReplicaState(Struct):
    replica_id: Int32 = 0
    replica_directory_id: Annotated[UUID, V("2+")] = NIL
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Annotated[Int64, V("1+", ignorable=True)] = -1
    last_caught_up_timestamp: Annotated[Int64, V("1+", ignorable=True)] = -1


class DescribeQuorumResponsePartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V("2+", nullable="2+", ignorable=True)] = ""
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: list[ReplicaState] = []
    observers: list[ReplicaState] = []


class DescribeQuorumResponseTopicData(Struct):
    topic_name: str = ""
    partitions: list[DescribeQuorumResponsePartitionData] = []


class Listener(Struct):
    name: Annotated[str, V("2+")] = ""
    host: Annotated[str, V("2+")] = ""
    port: Annotated[UInt16, V("2+")] = 0


class Node(Struct):
    node_id: Annotated[Int32, V("2+")] = 0
    listeners: Annotated[list[Listener], V("2+")] = []


class DescribeQuorumResponse(Response):
    error_code: Int16 = 0
    error_message: Annotated[str | None, V("2+", nullable="2+", ignorable=True)] = ""
    topics: list[DescribeQuorumResponseTopicData] = []
    nodes: Annotated[list[Node], V("2+")] = []
