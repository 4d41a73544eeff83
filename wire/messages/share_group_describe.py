"""The messages of ShareGroupDescribe (API key 77), version 1, flexible."""

from typing import Annotated

from msgspec import field

from wire.declare import NIL, UUID, Bool, Int16, Int32, Request, Response, Struct, V


class ShareGroupDescribeRequest(Request["ShareGroupDescribeResponse"]):
    group_ids: list[str] = []
    include_authorized_operations: Bool = False


class TopicPartitions(Struct):
    topic_id: UUID = NIL
    topic_name: str = ""
    partitions: list[Int32] = []


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = []


class Member(Struct):
    member_id: str = ""
    rack_id: Annotated[str | None, V(nullable="0+")] = None
    member_epoch: Int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    assignment: Assignment = field(default_factory=Assignment)


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: str = ""
    members: list[Member] = []
    authorized_operations: Int32 = -(2**31)


class ShareGroupDescribeResponse(Response):
    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = []
