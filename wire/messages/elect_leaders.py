"""The messages of ElectLeaders (API key 43), versions 0-2, flexible from version 2.

- Version 1 adds `election_type` to the request. It adds `error_code` to the response.
- Version 2 is flexible.
"""

from typing import Annotated

from wire.declare import Int8, Int16, Int32, Request, Response, Struct, V


class TopicPartitions(Struct):
    topic: str = ""
    partitions: list[Int32] = []


class ElectLeadersRequest(Request["ElectLeadersResponse"]):
    election_type: Annotated[Int8, V("1+")] = 0
    topic_partitions: Annotated[list[TopicPartitions] | None, V(nullable="0+")] = []
    timeout_ms: Int32 = 60000


class PartitionResult(Struct):
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""


class ReplicaElectionResult(Struct):
    topic: str = ""
    partition_result: list[PartitionResult] = []


class ElectLeadersResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, V("1+")] = 0
    replica_election_results: list[ReplicaElectionResult] = []
