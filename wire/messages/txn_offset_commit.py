"""The messages of TxnOffsetCommit (API key 28), versions 0-5, flexible from version 3.

- Version 2 adds `committed_leader_epoch` to the request.
- Version 3 is flexible and adds `generation_id`, `member_id`, and `group_instance_id` to the request.
"""

from typing import Annotated

from wire.declare import Int16, Int32, Int64, Request, Response, Struct, V


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, V("2+", ignorable=True)] = -1
    committed_metadata: Annotated[str | None, V(nullable="0+")] = ""


class TxnOffsetCommitRequestTopic(Struct):
    name: str = ""
    partitions: list[TxnOffsetCommitRequestPartition] = []


class TxnOffsetCommitRequest(Request["TxnOffsetCommitResponse"]):
    transactional_id: str = ""
    group_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Annotated[Int32, V("3+")] = -1
    member_id: Annotated[str, V("3+")] = ""
    group_instance_id: Annotated[str | None, V("3+", nullable="3+")] = None
    topics: list[TxnOffsetCommitRequestTopic] = []


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class TxnOffsetCommitResponseTopic(Struct):
    name: str = ""
    partitions: list[TxnOffsetCommitResponsePartition] = []


class TxnOffsetCommitResponse(Response):
    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = []
