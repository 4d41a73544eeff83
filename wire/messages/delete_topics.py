"""The messages of DeleteTopics (API key 20), versions 1-6, flexible from version 4.

- Version 4 is flexible.
- Version 5 adds `error_message` to the response.
- Version 6 adds `topics` to the request and removes `topic_names` from the request. It adds `topic_id` to the response
  and lets `name` be null in the response.
"""

from typing import Annotated

from wire.declare import NIL, UUID, Int16, Int32, Request, Response, Struct, V


class DeleteTopicState(Struct):
    name: Annotated[str | None, V("6+", nullable="6+")] = None
    topic_id: Annotated[UUID, V("6+")] = NIL


class DeleteTopicsRequest(Request["DeleteTopicsResponse"]):
    topics: Annotated[list[DeleteTopicState], V("6+")] = []
    topic_names: Annotated[list[str], V("0-5", ignorable=True)] = []
    timeout_ms: Int32 = 0


class DeletableTopicResult(Struct):
    name: Annotated[str | None, V(nullable="6+")] = ""
    topic_id: Annotated[UUID, V("6+", ignorable=True)] = NIL
    error_code: Int16 = 0
    error_message: Annotated[str | None, V("5+", nullable="5+", ignorable=True)] = None


class DeleteTopicsResponse(Response):
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    responses: list[DeletableTopicResult] = []
