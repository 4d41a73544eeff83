"""The messages of ListOffsets (API key 2), versions 1-11, flexible from version 6.

- Version 2 adds `isolation_level` to the request. It adds `throttle_time_ms` to the response.
- Version 4 adds `current_leader_epoch` to the request. It adds `leader_epoch` to the response.
- Version 6 is flexible.
- Version 10 adds `timeout_ms` to the request.
"""

from typing import Annotated

from wire.declare import Int8, Int16, Int32, Int64, Request, Response, Struct, V


class ListOffsetsPartition(Struct):
    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, V("4+", ignorable=True)] = -1
    timestamp: Int64 = 0


class ListOffsetsTopic(Struct):
    name: str = ""
    partitions: list[ListOffsetsPartition] = []


class ListOffsetsRequest(Request["ListOffsetsResponse"]):
    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, V("2+")] = 0
    topics: list[ListOffsetsTopic] = []
    timeout_ms: Annotated[Int32, V("10+", ignorable=True)] = 0


class ListOffsetsPartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Annotated[Int64, V("1+")] = -1
    offset: Annotated[Int64, V("1+")] = -1
    leader_epoch: Annotated[Int32, V("4+")] = -1


class ListOffsetsTopicResponse(Struct):
    name: str = ""
    partitions: list[ListOffsetsPartitionResponse] = []


class ListOffsetsResponse(Response):
    throttle_time_ms: Annotated[Int32, V("2+", ignorable=True)] = 0
    topics: list[ListOffsetsTopicResponse] = []
