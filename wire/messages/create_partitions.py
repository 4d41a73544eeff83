"""The messages of CreatePartitions (API key 37), versions 0-3, flexible from version 2.

- Version 2 is flexible.
"""

from typing import Annotated

from wire.declare import Bool, Int16, Int32, Request, Response, Struct, V


class CreatePartitionsAssignment(Struct):
    broker_ids: list[Int32] = []


class CreatePartitionsTopic(Struct):
    name: str = ""
    count: Int32 = 0
    assignments: Annotated[list[CreatePartitionsAssignment] | None, V(nullable="0+")] = []


class CreatePartitionsRequest(Request["CreatePartitionsResponse"]):
    topics: list[CreatePartitionsTopic] = []
    timeout_ms: Int32 = 0
    validate_only: Bool = False


class CreatePartitionsTopicResult(Struct):
    name: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None


class CreatePartitionsResponse(Response):
    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = []
