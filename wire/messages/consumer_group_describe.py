"""The messages of ConsumerGroupDescribe (API key 69), versions 0-1, all flexible.

- Version 1 adds `member_type` to the response.
"""

from typing import Annotated

from msgspec import field

from wire.declare import NIL, UUID, Bool, Int8, Int16, Int32, Request, Response, Struct, V


class ConsumerGroupDescribeRequest(Request["ConsumerGroupDescribeResponse"]):
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
    instance_id: Annotated[str | None, V(nullable="0+")] = None
    rack_id: Annotated[str | None, V(nullable="0+")] = None
    member_epoch: Int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    subscribed_topic_regex: Annotated[str | None, V(nullable="0+")] = None
    assignment: Assignment = field(default_factory=Assignment)
    target_assignment: Assignment = field(default_factory=Assignment)
    member_type: Annotated[Int8, V("1+", ignorable=True)] = -1


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


class ConsumerGroupDescribeResponse(Response):
    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = []
