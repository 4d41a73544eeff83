"""The messages of Vote (API key 52), versions 0-2, all flexible.

- Version 1 adds `voter_id`, `replica_directory_id`, and `voter_directory_id` to the request. It adds `node_endpoints`
  to the response.
- Version 2 adds `pre_vote` to the request.
"""

from typing import Annotated

from wire.declare import NIL, UUID, Bool, Int16, Int32, Int64, Request, Response, Struct, UInt16, V


class VoteRequestPartitionData(Struct):
    partition_index: Int32 = 0
    replica_epoch: Int32 = 0
    replica_id: Int32 = 0
    replica_directory_id: Annotated[UUID, V("1+", ignorable=True)] = NIL
    voter_directory_id: Annotated[UUID, V("1+", ignorable=True)] = NIL
    last_offset_epoch: Int32 = 0
    last_offset: Int64 = 0
    pre_vote: Annotated[Bool, V("2+")] = False


class VoteRequestTopicData(Struct):
    topic_name: str = ""
    partitions: list[VoteRequestPartitionData] = []


class VoteRequest(Request["VoteResponse"]):
    cluster_id: Annotated[str | None, V(nullable="0+")] = None
    voter_id: Annotated[Int32, V("1+", ignorable=True)] = -1
    topics: list[VoteRequestTopicData] = []


class VoteResponsePartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    vote_granted: Bool = False


class VoteResponseTopicData(Struct):
    topic_name: str = ""
    partitions: list[VoteResponsePartitionData] = []


class NodeEndpoint(Struct):
    node_id: Annotated[Int32, V("1+")] = 0
    host: Annotated[str, V("1+")] = ""
    port: Annotated[UInt16, V("1+")] = 0


class VoteResponse(Response):
    error_code: Int16 = 0
    topics: list[VoteResponseTopicData] = []
    node_endpoints: Annotated[list[NodeEndpoint], V("1+", tag=0)] = []
