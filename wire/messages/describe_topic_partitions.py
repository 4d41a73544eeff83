"""The messages of DescribeTopicPartitions (API key 75), version 0, flexible."""

from typing import Annotated

from wire.declare import NIL, UUID, Bool, Int16, Int32, Request, Response, Struct, V


class TopicRequest(Struct):
    name: str = ""


class Cursor(Struct):
    topic_name: str = ""
    partition_index: Int32 = 0


class DescribeTopicPartitionsRequest(Request["DescribeTopicPartitionsResponse"]):
    topics: list[TopicRequest] = []
    response_partition_limit: Int32 = 2000
    cursor: Annotated[Cursor | None, V(nullable="0+")] = None


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, V(ignorable=True)] = -1
    replica_nodes: list[Int32] = []
    isr_nodes: list[Int32] = []
    eligible_leader_replicas: Annotated[list[Int32] | None, V(nullable="0+")] = None
    last_known_elr: Annotated[list[Int32] | None, V(nullable="0+")] = None
    offline_replicas: Annotated[list[Int32], V(ignorable=True)] = []


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: Int16 = 0
    name: Annotated[str | None, V(nullable="0+")] = ""
    topic_id: Annotated[UUID, V(ignorable=True)] = NIL
    is_internal: Annotated[Bool, V(ignorable=True)] = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = []
    topic_authorized_operations: Int32 = -(2**31)


class DescribeTopicPartitionsResponse(Response):
    throttle_time_ms: Annotated[Int32, V(ignorable=True)] = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    next_cursor: Annotated[Cursor | None, V(nullable="0+")] = None
