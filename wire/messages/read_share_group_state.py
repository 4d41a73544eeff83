"""The messages of ReadShareGroupState (API key 84), version 0, flexible."""

from typing import Annotated

from wire.declare import NIL, UUID, Int8, Int16, Int32, Int64, Request, Response, Struct, V


class PartitionData(Struct):
    partition: Int32 = 0
    leader_epoch: Int32 = 0


class ReadStateData(Struct):
    topic_id: UUID = NIL
    partitions: list[PartitionData] = []


class ReadShareGroupStateRequest(Request["ReadShareGroupStateResponse"]):
    group_id: str = ""
    topics: list[ReadStateData] = []


class StateBatch(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


class PartitionResult(Struct):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None
    state_epoch: Int32 = 0
    start_offset: Int64 = 0
    state_batches: list[StateBatch] = []


class ReadStateResult(Struct):
    topic_id: UUID = NIL
    partitions: list[PartitionResult] = []


class ReadShareGroupStateResponse(Response):
    results: list[ReadStateResult] = []
