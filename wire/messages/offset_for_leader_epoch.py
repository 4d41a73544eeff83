"""The messages of OffsetForLeaderEpoch (API key 23), versions 2-4, flexible from version 4.

- Version 3 adds `replica_id` to the request.
- Version 4 is flexible.
"""

from typing import Annotated

from wire.declare import Int16, Int32, Int64, Request, Response, Struct, V


class OffsetForLeaderPartition(Struct):
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, V("2+", ignorable=True)] = -1
    leader_epoch: Int32 = 0


class OffsetForLeaderTopic(Struct):
    topic: str = ""
    partitions: list[OffsetForLeaderPartition] = []


class OffsetForLeaderEpochRequest(Request["OffsetForLeaderEpochResponse"]):
    replica_id: Annotated[Int32, V("3+", ignorable=True)] = -2
    topics: list[OffsetForLeaderTopic] = []


class EpochEndOffset(Struct):
    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Annotated[Int32, V("1+", ignorable=True)] = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Struct):
    topic: str = ""
    partitions: list[EpochEndOffset] = []


class OffsetForLeaderEpochResponse(Response):
    throttle_time_ms: Annotated[Int32, V("2+", ignorable=True)] = 0
    topics: list[OffsetForLeaderTopicResult] = []
