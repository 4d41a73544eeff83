"""The messages of OffsetDelete (API key 47), version 0, never flexible."""

from typing import Annotated

from wire.declare import Int16, Int32, Request, Response, Struct, V


class OffsetDeleteRequestPartition(Struct):
    partition_index: Int32 = 0


class OffsetDeleteRequestTopic(Struct):
    name: str = ""
    partitions: list[OffsetDeleteRequestPartition] = []


class OffsetDeleteRequest(Request["OffsetDeleteResponse"]):
    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = []


class OffsetDeleteResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetDeleteResponseTopic(Struct):
    name: str = ""
    partitions: list[OffsetDeleteResponsePartition] = []


class OffsetDeleteResponse(Response):
    error_code: Int16 = 0
    throttle_time_ms: Annotated[Int32, V(ignorable=True)] = 0
    topics: list[OffsetDeleteResponseTopic] = []
