"""The messages of OffsetCommit (API key 8), versions 2-10, flexible from version 8.

- Version 3 adds `throttle_time_ms` to the response.
- Version 5 removes `retention_time_ms` from the request.
- Version 6 adds `committed_leader_epoch` to the request.
- Version 7 adds `group_instance_id` to the request.
- Version 8 is flexible.
- Version 10 adds `topic_id` to the request and removes `name` from the request. It adds `topic_id` to the response and
  removes `name` from the response.
"""

from typing import Annotated

from wire.declare import NIL, UUID, Int16, Int32, Int64, Request, Response, Struct, V


class OffsetCommitRequestPartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, V("6+", ignorable=True)] = -1
    committed_metadata: Annotated[str | None, V(nullable="0+")] = ""


class OffsetCommitRequestTopic(Struct):
    name: Annotated[str, V("0-9", ignorable=True)] = ""
    topic_id: Annotated[UUID, V("10+", ignorable=True)] = NIL
    partitions: list[OffsetCommitRequestPartition] = []


class OffsetCommitRequest(Request["OffsetCommitResponse"]):
    group_id: str = ""
    generation_id_or_member_epoch: Annotated[Int32, V("1+", ignorable=True)] = -1
    member_id: Annotated[str, V("1+", ignorable=True)] = ""
    group_instance_id: Annotated[str | None, V("7+", nullable="7+")] = None
    retention_time_ms: Annotated[Int64, V("2-4", ignorable=True)] = -1
    topics: list[OffsetCommitRequestTopic] = []


class OffsetCommitResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetCommitResponseTopic(Struct):
    name: Annotated[str, V("0-9", ignorable=True)] = ""
    topic_id: Annotated[UUID, V("10+", ignorable=True)] = NIL
    partitions: list[OffsetCommitResponsePartition] = []


class OffsetCommitResponse(Response):
    throttle_time_ms: Annotated[Int32, V("3+", ignorable=True)] = 0
    topics: list[OffsetCommitResponseTopic] = []
