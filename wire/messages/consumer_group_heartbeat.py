"""The messages of ConsumerGroupHeartbeat (API key 68), versions 0-1, all flexible.

- Version 1 adds `subscribed_topic_regex` to the request.
"""

from typing import Annotated

from wire.declare import NIL, UUID, Int16, Int32, Request, Response, Struct, V


class TopicPartitions(Struct):
    topic_id: UUID = NIL
    partitions: list[Int32] = []


class ConsumerGroupHeartbeatRequest(Request["ConsumerGroupHeartbeatResponse"]):
    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    instance_id: Annotated[str | None, V(nullable="0+")] = None
    rack_id: Annotated[str | None, V(nullable="0+")] = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: Annotated[list[str] | None, V(nullable="0+")] = None
    subscribed_topic_regex: Annotated[str | None, V("1+", nullable="1+")] = None
    server_assignor: Annotated[str | None, V(nullable="0+")] = None
    topic_partitions: Annotated[list[TopicPartitions] | None, V(nullable="0+")] = None


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = []


class ConsumerGroupHeartbeatResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None
    member_id: Annotated[str | None, V(nullable="0+")] = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Annotated[Assignment | None, V(nullable="0+")] = None
