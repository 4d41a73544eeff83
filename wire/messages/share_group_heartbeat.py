"""The messages of ShareGroupHeartbeat (API key 76), version 1, flexible."""

from typing import Annotated

from wire.declare import NIL, UUID, Int16, Int32, Request, Response, Struct, V


class ShareGroupHeartbeatRequest(Request["ShareGroupHeartbeatResponse"]):
    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    rack_id: Annotated[str | None, V(nullable="0+")] = None
    subscribed_topic_names: Annotated[list[str] | None, V(nullable="0+")] = None


class TopicPartitions(Struct):
    topic_id: UUID = NIL
    partitions: list[Int32] = []


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = []


class ShareGroupHeartbeatResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None
    member_id: Annotated[str | None, V(nullable="0+")] = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Annotated[Assignment | None, V(nullable="0+")] = None
