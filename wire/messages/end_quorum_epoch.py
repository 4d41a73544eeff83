"""The messages of EndQuorumEpoch (API key 54), versions 0-1, flexible from version 1.

- Version 1 is flexible, adds `preferred_candidates` and `leader_endpoints` to the request, and removes
  `preferred_successors` from the request. It adds `node_endpoints` to the response.
"""

from typing import Annotated

from wire.declare import NIL, UUID, Int16, Int32, Request, Response, Struct, UInt16, V


class ReplicaInfo(Struct):
    candidate_id: Annotated[Int32, V("1+")] = 0
    candidate_directory_id: Annotated[UUID, V("1+")] = NIL


class EndQuorumEpochRequestPartitionData(Struct):
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    preferred_successors: Annotated[list[Int32], V("0", ignorable=True)] = []
    preferred_candidates: Annotated[list[ReplicaInfo], V("1+", ignorable=True)] = []


class EndQuorumEpochRequestTopicData(Struct):
    topic_name: str = ""
    partitions: list[EndQuorumEpochRequestPartitionData] = []


class LeaderEndpoint(Struct):
    name: Annotated[str, V("1+")] = ""
    host: Annotated[str, V("1+")] = ""
    port: Annotated[UInt16, V("1+")] = 0


class EndQuorumEpochRequest(Request["EndQuorumEpochResponse"]):
    cluster_id: Annotated[str | None, V(nullable="0+")] = None
    topics: list[EndQuorumEpochRequestTopicData] = []
    leader_endpoints: Annotated[list[LeaderEndpoint], V("1+", ignorable=True)] = []


class EndQuorumEpochResponsePartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class EndQuorumEpochResponseTopicData(Struct):
    topic_name: str = ""
    partitions: list[EndQuorumEpochResponsePartitionData] = []


class NodeEndpoint(Struct):
    node_id: Annotated[Int32, V("1+")] = 0
    host: Annotated[str, V("1+")] = ""
    port: Annotated[UInt16, V("1+")] = 0


class EndQuorumEpochResponse(Response):
    error_code: Int16 = 0
    topics: list[EndQuorumEpochResponseTopicData] = []
    node_endpoints: Annotated[list[NodeEndpoint], V("1+", tag=0)] = []
