"""The messages of BeginQuorumEpoch (API key 53), versions 0-1, flexible from version 1.

- Version 1 is flexible and adds `voter_id`, `voter_directory_id`, and `leader_endpoints` to the request. It adds
  `node_endpoints` to the response.
"""

from typing import Annotated

from wire.declare import NIL, UUID, Int16, Int32, Request, Response, Struct, UInt16, V


class BeginQuorumEpochRequestPartitionData(Struct):
    partition_index: Int32 = 0
    voter_directory_id: Annotated[UUID, V("1+", ignorable=True)] = NIL
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class BeginQuorumEpochRequestTopicData(Struct):
    topic_name: str = ""
    partitions: list[BeginQuorumEpochRequestPartitionData] = []


class LeaderEndpoint(Struct):
    name: Annotated[str, V("1+")] = ""
    host: Annotated[str, V("1+")] = ""
    port: Annotated[UInt16, V("1+")] = 0


class BeginQuorumEpochRequest(Request["BeginQuorumEpochResponse"]):
    cluster_id: Annotated[str | None, V(nullable="0+")] = None
    voter_id: Annotated[Int32, V("1+", ignorable=True)] = -1
    topics: list[BeginQuorumEpochRequestTopicData] = []
    leader_endpoints: Annotated[list[LeaderEndpoint], V("1+", ignorable=True)] = []


class BeginQuorumEpochResponsePartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class BeginQuorumEpochResponseTopicData(Struct):
    topic_name: str = ""
    partitions: list[BeginQuorumEpochResponsePartitionData] = []


class NodeEndpoint(Struct):
    node_id: Annotated[Int32, V("1+")] = 0
    host: Annotated[str, V("1+")] = ""
    port: Annotated[UInt16, V("1+")] = 0


class BeginQuorumEpochResponse(Response):
    error_code: Int16 = 0
    topics: list[BeginQuorumEpochResponseTopicData] = []
    node_endpoints: Annotated[list[NodeEndpoint], V("1+", tag=0)] = []
