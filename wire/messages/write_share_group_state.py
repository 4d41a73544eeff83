"""The messages of WriteShareGroupState (API key 85), versions 0-1, all flexible.

- Version 1 adds `delivery_complete_count` to the request.
"""

from typing import Annotated

from wire.declare import NIL, UUID, Int16, Int32, Int64, Request, Response, Struct, V
from wire.messages.read_share_group_state import StateBatch


class PartitionData(Struct):
    partition: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, V("1+", ignorable=True)] = -1
    state_batches: list[StateBatch] = []


class WriteStateData(Struct):
    topic_id: UUID = NIL
    partitions: list[PartitionData] = []


class WriteShareGroupStateRequest(Request["WriteShareGroupStateResponse"]):
    group_id: str = ""
    topics: list[WriteStateData] = []


class PartitionResult(Struct):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None


class WriteStateResult(Struct):
    topic_id: UUID = NIL
    partitions: list[PartitionResult] = []


class WriteShareGroupStateResponse(Response):
    results: list[WriteStateResult] = []
