"""The messages of ShareFetch (API key 78), versions 1-2, all flexible.

- Version 2 adds `share_acquire_mode` and `is_renew_ack` to the request.
"""

from typing import Annotated

from wire.declare import (
    NIL,
    UUID,
    AnyRecords,
    Bool,
    FrozenStruct,
    Int8,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Struct,
    V,
)


class AcknowledgementBatch(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: list[Int8] = []


class FetchPartition(Struct):
    partition_index: Int32 = 0
    partition_max_bytes: Annotated[Int32, V("0")] = 0
    acknowledgement_batches: list[AcknowledgementBatch] = []


class FetchTopic(Struct):
    topic_id: UUID = NIL
    partitions: list[FetchPartition] = []


class ForgottenTopic(Struct):
    topic_id: UUID = NIL
    partitions: list[Int32] = []


class ShareFetchRequest(Request["ShareFetchResponse"]):
    group_id: Annotated[str | None, V(nullable="0+")] = None
    member_id: Annotated[str | None, V(nullable="0+")] = ""
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2**31 - 1
    max_records: Annotated[Int32, V("1+")] = 0
    batch_size: Annotated[Int32, V("1+")] = 0
    share_acquire_mode: Annotated[Int8, V("2+", ignorable=True)] = 0
    is_renew_ack: Annotated[Bool, V("2+")] = False
    topics: list[FetchTopic] = []
    forgotten_topics_data: list[ForgottenTopic] = []


class LeaderIdAndEpoch(FrozenStruct, frozen=True):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class AcquiredRecords(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_count: Int16 = 0


class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: Annotated[str | None, V(nullable="0+")] = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
    records: Annotated[AnyRecords, V(nullable="0")] = None
    acquired_records: list[AcquiredRecords] = []


class ShareFetchableTopicResponse(Struct):
    topic_id: UUID = NIL
    partitions: list[PartitionData] = []


class NodeEndpoint(Struct):
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: Annotated[str | None, V(nullable="0+")] = None


class ShareFetchResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None
    acquisition_lock_timeout_ms: Annotated[Int32, V("1+")] = 0
    responses: list[ShareFetchableTopicResponse] = []
    node_endpoints: list[NodeEndpoint] = []
