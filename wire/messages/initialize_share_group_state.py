"""The messages of InitializeShareGroupState (API key 83), version 0, flexible."""

from wire.declare import NIL, UUID, Int32, Int64, Request, Response, Struct
from wire.messages.write_share_group_state import PartitionResult


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


class InitializeStateResult(Struct):
    topic_id: UUID = NIL
    partitions: list[PartitionResult] = []


class InitializeShareGroupStateResponse(Response):
    results: list[InitializeStateResult] = []
