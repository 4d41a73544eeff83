"""The messages of DescribeProducers (API key 61), version 0, flexible."""

from typing import Annotated

from wire.declare import Int16, Int32, Int64, Request, Response, Struct, V


class TopicRequest(Struct):
    name: str = ""
    partition_indexes: list[Int32] = []


class DescribeProducersRequest(Request["DescribeProducersResponse"]):
    topics: list[TopicRequest] = []


class ProducerState(Struct):
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


class PartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None
    active_producers: list[ProducerState] = []


class TopicResponse(Struct):
    name: str = ""
    partitions: list[PartitionResponse] = []


class DescribeProducersResponse(Response):
    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse] = []
