"""The messages of StreamsGroupDescribe (API key 89), version 0, flexible."""

from typing import Annotated

from msgspec import field

from wire.declare import Bool, Int16, Int32, Request, Response, Struct, UInt16, V
from wire.messages.streams_group_heartbeat import KeyValue, TaskIds, TaskOffset, TopicInfo


class StreamsGroupDescribeRequest(Request["StreamsGroupDescribeResponse"]):
    group_ids: list[str] = []
    include_authorized_operations: Bool = False


class Subtopology(Struct):
    subtopology_id: str = ""
    source_topics: list[str] = []
    repartition_sink_topics: list[str] = []
    state_changelog_topics: list[TopicInfo] = []
    repartition_source_topics: list[TopicInfo] = []


class Topology(Struct):
    epoch: Int32 = 0
    subtopologies: Annotated[list[Subtopology] | None, V(nullable="0+")] = None


class Endpoint(Struct):
    host: str = ""
    port: UInt16 = 0


class Assignment(Struct):
    active_tasks: list[TaskIds] = []
    standby_tasks: list[TaskIds] = []
    warmup_tasks: list[TaskIds] = []


class Member(Struct):
    member_id: str = ""
    member_epoch: Int32 = 0
    instance_id: Annotated[str | None, V(nullable="0+")] = None
    rack_id: Annotated[str | None, V(nullable="0+")] = None
    client_id: str = ""
    client_host: str = ""
    topology_epoch: Int32 = 0
    process_id: str = ""
    user_endpoint: Annotated[Endpoint | None, V(nullable="0+")] = None
    client_tags: list[KeyValue] = []
    task_offsets: list[TaskOffset] = []
    task_end_offsets: list[TaskOffset] = []
    assignment: Assignment = field(default_factory=Assignment)
    target_assignment: Assignment = field(default_factory=Assignment)
    is_classic: Bool = False


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    topology: Annotated[Topology | None, V(nullable="0+")] = None
    members: list[Member] = []
    authorized_operations: Int32 = -(2**31)


class StreamsGroupDescribeResponse(Response):
    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = []
