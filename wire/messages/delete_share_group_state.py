"""The messages of DeleteShareGroupState (API key 86), version 0, flexible."""

from typing import Annotated

from wire.declare import NIL, UUID, Int16, Int32, Request, Response, Struct, V


class PartitionData(Struct):
    partition: Int32 = 0


class DeleteStateData(Struct):
    topic_id: UUID = NIL
    partitions: list[PartitionData] = []


class DeleteShareGroupStateRequest(Request["DeleteShareGroupStateResponse"]):
    group_id: str = ""
    topics: list[DeleteStateData] = []


class PartitionResult(Struct):
    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None


class DeleteStateResult(Struct):
    topic_id: UUID = NIL
    partitions: list[PartitionResult] = []


class DeleteShareGroupStateResponse(Response):
    results: list[DeleteStateResult] = []
