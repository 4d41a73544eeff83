"""The messages of DescribeShareGroupOffsets (API key 90), versions 0-1, all flexible.

- Version 1 adds `lag` to the response.
"""

from typing import Annotated

from wire.declare import NIL, UUID, Int16, Int32, Int64, Request, Response, Struct, V


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = ""
    partitions: list[Int32] = []


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: str = ""
    topics: Annotated[list[DescribeShareGroupOffsetsRequestTopic] | None, V(nullable="0+")] = []


class DescribeShareGroupOffsetsRequest(Request["DescribeShareGroupOffsetsResponse"]):
    groups: list[DescribeShareGroupOffsetsRequestGroup] = []


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: Int32 = 0
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Annotated[Int64, V("1+", ignorable=True)] = -1
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = ""
    topic_id: UUID = NIL
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = []


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsResponseTopic] = []
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None


class DescribeShareGroupOffsetsResponse(Response):
    throttle_time_ms: Int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = []
