"""DeleteShareGroupState (86), version 0, flexible."""

from typing import Annotated, ClassVar

from wire.api import ApiKey
from wire.declare import NIL, UUID, Int16, Int32, Request, Response, Struct, V


class PartitionData(Struct):
    """Each of `DeleteStateData.partitions`."""

    partition: Int32 = 0


class DeleteStateData(Struct):
    """Each of `DeleteShareGroupStateRequest.topics`."""

    topic_id: UUID = NIL
    partitions: list[PartitionData] = []


class DeleteShareGroupStateRequest(Request):
    """What a client asks."""

    key: ClassVar = ApiKey.DELETE_SHARE_GROUP_STATE
    versions: ClassVar = "0"
    flexible: ClassVar = "0+"

    group_id: str = ""
    topics: list[DeleteStateData] = []


class PartitionResult(Struct):
    """Each of `DeleteStateResult.partitions`."""

    partition: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None


class DeleteStateResult(Struct):
    """Each of `DeleteShareGroupStateResponse.results`."""

    topic_id: UUID = NIL
    partitions: list[PartitionResult] = []


class DeleteShareGroupStateResponse(Response):
    """What it is answered."""

    key: ClassVar = ApiKey.DELETE_SHARE_GROUP_STATE
    versions: ClassVar = "0"
    flexible: ClassVar = "0+"

    results: list[DeleteStateResult] = []
