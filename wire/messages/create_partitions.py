"""The messages of CreatePartitions (API key 37), versions 0-3, flexible from version 2.

- Version 2 is flexible.
"""

from typing import Annotated, ClassVar

from wire.api import ApiKey
from wire.declare import Bool, Int16, Int32, Request, Response, Struct, V


class CreatePartitionsAssignment(Struct):
    broker_ids: list[Int32] = []


class CreatePartitionsTopic(Struct):
    name: str = ""
    count: Int32 = 0
    assignments: Annotated[list[CreatePartitionsAssignment] | None, V(nullable="0+")] = []


class CreatePartitionsRequest(Request["CreatePartitionsResponse"]):
    key: ClassVar = ApiKey.CREATE_PARTITIONS
    versions: ClassVar = "0-3"
    flexible: ClassVar = "2+"

    topics: list[CreatePartitionsTopic] = []
    timeout_ms: Int32 = 0
    validate_only: Bool = False


class CreatePartitionsTopicResult(Struct):
    name: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None


class CreatePartitionsResponse(Response):
    key: ClassVar = ApiKey.CREATE_PARTITIONS
    versions: ClassVar = "0-3"
    flexible: ClassVar = "2+"

    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = []
