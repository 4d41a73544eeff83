"""The messages of OffsetFetch (API key 9), versions 1-10, flexible from version 6.

- Version 2 lets `topics` be null in the request. It adds `error_code` to the response.
- Version 3 adds `throttle_time_ms` to the response.
- Version 5 adds `committed_leader_epoch` to the response.
- Version 6 is flexible.
- Version 7 adds `require_stable` to the request.
- Version 8 adds `groups` to the request and removes `group_id` and `topics` from the request. It adds `groups` to the
  response and removes `topics` and `error_code` from the response.
- Version 9 adds `member_id` and `member_epoch` to the request.
- Version 10 adds `topic_id` to the request and removes `name` from the request. It adds `topic_id` to the response and
  removes `name` from the response.
"""

from typing import Annotated

from wire.declare import NIL, UUID, Bool, Int16, Int32, Int64, Request, Response, Struct, V


class OffsetFetchRequestTopic(Struct):
    name: Annotated[str, V("0-7")] = ""
    partition_indexes: Annotated[list[Int32], V("0-7")] = []


class OffsetFetchRequestTopics(Struct):
    name: Annotated[str, V("8-9", ignorable=True)] = ""
    topic_id: Annotated[UUID, V("10+", ignorable=True)] = NIL
    partition_indexes: Annotated[list[Int32], V("8+")] = []


class OffsetFetchRequestGroup(Struct):
    group_id: Annotated[str, V("8+")] = ""
    member_id: Annotated[str | None, V("9+", nullable="9+", ignorable=True)] = None
    member_epoch: Annotated[Int32, V("9+", ignorable=True)] = -1
    topics: Annotated[list[OffsetFetchRequestTopics] | None, V("8+", nullable="8+")] = []


class OffsetFetchRequest(Request["OffsetFetchResponse"]):
    group_id: Annotated[str, V("0-7")] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, V("0-7", nullable="2-7")] = []
    groups: Annotated[list[OffsetFetchRequestGroup], V("8+")] = []
    require_stable: Annotated[Bool, V("7+")] = False


class OffsetFetchResponsePartition(Struct):
    partition_index: Annotated[Int32, V("0-7")] = 0
    committed_offset: Annotated[Int64, V("0-7")] = 0
    committed_leader_epoch: Annotated[Int32, V("5-7", ignorable=True)] = -1
    metadata: Annotated[str | None, V("0-7", nullable="0-7")] = ""
    error_code: Annotated[Int16, V("0-7")] = 0


class OffsetFetchResponseTopic(Struct):
    name: Annotated[str, V("0-7")] = ""
    partitions: Annotated[list[OffsetFetchResponsePartition], V("0-7")] = []


class OffsetFetchResponsePartitions(Struct):
    partition_index: Annotated[Int32, V("8+")] = 0
    committed_offset: Annotated[Int64, V("8+")] = 0
    committed_leader_epoch: Annotated[Int32, V("8+", ignorable=True)] = -1
    metadata: Annotated[str | None, V("8+", nullable="8+")] = ""
    error_code: Annotated[Int16, V("8+")] = 0


class OffsetFetchResponseTopics(Struct):
    name: Annotated[str, V("8-9", ignorable=True)] = ""
    topic_id: Annotated[UUID, V("10+", ignorable=True)] = NIL
    partitions: Annotated[list[OffsetFetchResponsePartitions], V("8+")] = []


class OffsetFetchResponseGroup(Struct):
    group_id: Annotated[str, V("8+")] = ""
    topics: Annotated[list[OffsetFetchResponseTopics], V("8+")] = []
    error_code: Annotated[Int16, V("8+")] = 0


class OffsetFetchResponse(Response):
    throttle_time_ms: Annotated[Int32, V("3+", ignorable=True)] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], V("0-7")] = []
    error_code: Annotated[Int16, V("2-7", ignorable=True)] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], V("8+")] = []
