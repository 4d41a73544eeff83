"""The messages of InitializeShareGroupState (API key 83), version 0, flexible."""

from typing import Annotated

from wire.declare import NIL, UUID, Int16, Int32, Int64, Request, Response, Struct, V


class PartitionData(Struct):
    partition: Int32 = 0
    state_epoch: Int32 = 0
    start_offset: Int64 = 0


class InitializeStateData(Struct):
    topic_id: UUID = NIL
    partitions: list[PartitionData] = []


class InitializeShareGroupStateRequest(Request["InitializeShareGroupStateResponse"]):
    group_id: str = ""
    topics: list[InitializeStateData] = []


class PartitionResult(Struct):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None


class InitializeStateResult(Struct):
    topic_id: UUID = NIL
    partitions: list[PartitionResult] = []


class InitializeShareGroupStateResponse(Response):
    results: list[InitializeStateResult] = []
