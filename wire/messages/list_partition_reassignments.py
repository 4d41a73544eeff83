"""The messages of ListPartitionReassignments (API key 46), version 0, flexible."""

from typing import Annotated

from wire.declare import Int16, Int32, Request, Response, Struct, V


class ListPartitionReassignmentsTopics(Struct):
    name: str = ""
    partition_indexes: list[Int32] = []


class ListPartitionReassignmentsRequest(Request["ListPartitionReassignmentsResponse"]):
    timeout_ms: Int32 = 60000
    topics: Annotated[list[ListPartitionReassignmentsTopics] | None, V(nullable="0+")] = None


class OngoingPartitionReassignment(Struct):
    partition_index: Int32 = 0
    replicas: list[Int32] = []
    adding_replicas: list[Int32] = []
    removing_replicas: list[Int32] = []


class OngoingTopicReassignment(Struct):
    name: str = ""
    partitions: list[OngoingPartitionReassignment] = []


class ListPartitionReassignmentsResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    topics: list[OngoingTopicReassignment] = []
