"""The messages of DeleteShareGroupOffsets (API key 92), version 0, flexible."""

from typing import Annotated

from wire.declare import NIL, UUID, Int16, Int32, Request, Response, Struct, V


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = ""


class DeleteShareGroupOffsetsRequest(Request["DeleteShareGroupOffsetsResponse"]):
    group_id: str = ""
    topics: list[DeleteShareGroupOffsetsRequestTopic] = []


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = ""
    topic_id: UUID = NIL
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None


class DeleteShareGroupOffsetsResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None
    responses: list[DeleteShareGroupOffsetsResponseTopic] = []
