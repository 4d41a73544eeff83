"""The messages of Fetch (API key 1), versions 4-18, flexible from version 12.

- Version 5 adds `log_start_offset` to the request. It adds `log_start_offset` to the response.
- Version 7 adds `session_id`, `session_epoch`, and `forgotten_topics_data` to the request. It adds `error_code` and
  `session_id` to the response.
- Version 9 adds `current_leader_epoch` to the request.
- Version 11 adds `rack_id` to the request. It adds `preferred_read_replica` to the response.
- Version 12 is flexible and adds `cluster_id` and `last_fetched_epoch` to the request. It adds `diverging_epoch`,
  `current_leader`, and `snapshot_id` to the response.
- Version 13 adds `topic_id` to the request and removes `topic` from the request. It adds `topic_id` to the response and
  removes `topic` from the response.
- Version 15 adds `replica_state` to the request and removes `replica_id` from the request.
- Version 16 adds `node_endpoints` to the response.
- Version 17 adds `replica_directory_id` to the request.
- Version 18 adds `high_watermark` to the request.
"""

from typing import Annotated

from wire.declare import NIL, UUID, AnyRecords, FrozenStruct, Int8, Int16, Int32, Int64, Request, Response, Struct, V


class ReplicaState(FrozenStruct, frozen=True):
    replica_id: Annotated[Int32, V("15+")] = -1
    replica_epoch: Annotated[Int64, V("15+")] = -1


class FetchPartition(Struct):
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, V("9+", ignorable=True)] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, V("12+")] = -1
    log_start_offset: Annotated[Int64, V("5+", ignorable=True)] = -1
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[UUID, V("17+", tag=0, ignorable=True)] = NIL
    high_watermark: Annotated[Int64, V("18+", tag=1, ignorable=True)] = 2**63 - 1


class FetchTopic(Struct):
    topic: Annotated[str, V("0-12", ignorable=True)] = ""
    topic_id: Annotated[UUID, V("13+", ignorable=True)] = NIL
    partitions: list[FetchPartition] = []


class ForgottenTopic(Struct):
    topic: Annotated[str, V("7-12", ignorable=True)] = ""
    topic_id: Annotated[UUID, V("13+", ignorable=True)] = NIL
    partitions: Annotated[list[Int32], V("7+")] = []


class FetchRequest(Request["FetchResponse"]):
    cluster_id: Annotated[str | None, V("12+", nullable="12+", tag=0, ignorable=True)] = None
    replica_id: Annotated[Int32, V("0-14")] = -1
    replica_state: Annotated[ReplicaState, V("15+", tag=1)] = ReplicaState()
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Annotated[Int32, V("3+", ignorable=True)] = 2**31 - 1
    isolation_level: Annotated[Int8, V("4+", ignorable=True)] = 0
    session_id: Annotated[Int32, V("7+", ignorable=True)] = 0
    session_epoch: Annotated[Int32, V("7+", ignorable=True)] = -1
    topics: list[FetchTopic] = []
    forgotten_topics_data: Annotated[list[ForgottenTopic], V("7+")] = []
    rack_id: Annotated[str, V("11+", ignorable=True)] = ""


class EpochEndOffset(FrozenStruct, frozen=True):
    epoch: Annotated[Int32, V("12+")] = -1
    end_offset: Annotated[Int64, V("12+")] = -1


class LeaderIdAndEpoch(FrozenStruct, frozen=True):
    leader_id: Annotated[Int32, V("12+")] = -1
    leader_epoch: Annotated[Int32, V("12+")] = -1


class SnapshotId(FrozenStruct, frozen=True):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Struct):
    producer_id: Annotated[Int64, V("4+")] = 0
    first_offset: Annotated[Int64, V("4+")] = 0


class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Annotated[Int64, V("4+", ignorable=True)] = -1
    log_start_offset: Annotated[Int64, V("5+", ignorable=True)] = -1
    diverging_epoch: Annotated[EpochEndOffset, V("12+", tag=0)] = EpochEndOffset()
    current_leader: Annotated[LeaderIdAndEpoch, V("12+", tag=1)] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, V("12+", tag=2)] = SnapshotId()
    aborted_transactions: Annotated[list[AbortedTransaction] | None, V("4+", nullable="4+", ignorable=True)] = []
    preferred_read_replica: Annotated[Int32, V("11+")] = -1
    records: Annotated[AnyRecords, V(nullable="0+")] = None


class FetchableTopicResponse(Struct):
    topic: Annotated[str, V("0-12", ignorable=True)] = ""
    topic_id: Annotated[UUID, V("13+", ignorable=True)] = NIL
    partitions: list[PartitionData] = []


class NodeEndpoint(Struct):
    node_id: Annotated[Int32, V("16+")] = 0
    host: Annotated[str, V("16+")] = ""
    port: Annotated[Int32, V("16+")] = 0
    rack: Annotated[str | None, V("16+", nullable="16+")] = None


class FetchResponse(Response):
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    error_code: Annotated[Int16, V("7+", ignorable=True)] = 0
    session_id: Annotated[Int32, V("7+")] = 0
    responses: list[FetchableTopicResponse] = []
    node_endpoints: Annotated[list[NodeEndpoint], V("16+", tag=0)] = []
