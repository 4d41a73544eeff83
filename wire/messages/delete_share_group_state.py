"""The messages of DeleteShareGroupState (API key 86), version 0, flexible."""

from wire.declare import NIL, UUID, Int32, Request, Response, Struct
from wire.messages.write_share_group_state import PartitionResult


class PartitionData(Struct):
    partition: Int32 = 0


class DeleteStateData(Struct):
    topic_id: UUID = NIL
    partitions: list[PartitionData] = []


class DeleteShareGroupStateRequest(Request["DeleteShareGroupStateResponse"]):
    group_id: str = ""
    topics: list[DeleteStateData] = []


class DeleteStateResult(Struct):
    topic_id: UUID = NIL
    partitions: list[PartitionResult] = []


class DeleteShareGroupStateResponse(Response):
    results: list[DeleteStateResult] = []
