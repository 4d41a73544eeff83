"""The messages of ReadShareGroupStateSummary (API key 87), versions 0-1, all flexible.

- Version 1 adds `delivery_complete_count` to the response.
"""

from typing import Annotated

from wire.declare import NIL, UUID, Int16, Int32, Int64, Request, Response, Struct, V
from wire.messages.read_share_group_state import PartitionData


class ReadStateSummaryData(Struct):
    topic_id: UUID = NIL
    partitions: list[PartitionData] = []


class ReadShareGroupStateSummaryRequest(Request["ReadShareGroupStateSummaryResponse"]):
    group_id: str = ""
    topics: list[ReadStateSummaryData] = []


class PartitionResult(Struct):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, V("1+", ignorable=True)] = -1


class ReadStateSummaryResult(Struct):
    topic_id: UUID = NIL
    partitions: list[PartitionResult] = []


class ReadShareGroupStateSummaryResponse(Response):
    results: list[ReadStateSummaryResult] = []
