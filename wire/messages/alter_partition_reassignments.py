"""The messages of AlterPartitionReassignments (API key 45), versions 0-1, all flexible.

- Version 1 adds `allow_replication_factor_change` to the request. It adds `allow_replication_factor_change` to the
  response.
"""

from typing import Annotated

from wire.declare import Bool, Int16, Int32, Request, Response, Struct, V


class ReassignablePartition(Struct):
    partition_index: Int32 = 0
    replicas: Annotated[list[Int32] | None, V(nullable="0+")] = None


class ReassignableTopic(Struct):
    name: str = ""
    partitions: list[ReassignablePartition] = []


class AlterPartitionReassignmentsRequest(Request["AlterPartitionReassignmentsResponse"]):
    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Annotated[Bool, V("1+")] = True
    topics: list[ReassignableTopic] = []


class ReassignablePartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""


class ReassignableTopicResponse(Struct):
    name: str = ""
    partitions: list[ReassignablePartitionResponse] = []


class AlterPartitionReassignmentsResponse(Response):
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[Bool, V("1+", ignorable=True)] = True
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    responses: list[ReassignableTopicResponse] = []
