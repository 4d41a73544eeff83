"""The messages of StreamsGroupHeartbeat (API key 88), version 0, flexible."""

from typing import Annotated

from wire.declare import Bool, FrozenStruct, Int8, Int16, Int32, Int64, Request, Response, Struct, UInt16, V


class KeyValue(Struct):
    key: str = ""
    value: str = ""


class TopicInfo(Struct):
    name: str = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: list[KeyValue] = []


class CopartitionGroup(Struct):
    source_topics: list[Int16] = []
    source_topic_regex: list[Int16] = []
    repartition_source_topics: list[Int16] = []


class Subtopology(Struct):
    subtopology_id: str = ""
    source_topics: list[str] = []
    source_topic_regex: list[str] = []
    state_changelog_topics: list[TopicInfo] = []
    repartition_sink_topics: list[str] = []
    repartition_source_topics: list[TopicInfo] = []
    copartition_groups: list[CopartitionGroup] = []


class Topology(Struct):
    epoch: Int32 = 0
    subtopologies: list[Subtopology] = []


class TaskIds(Struct):
    subtopology_id: str = ""
    partitions: list[Int32] = []


class Endpoint(FrozenStruct, frozen=True):
    host: str = ""
    port: UInt16 = 0


class TaskOffset(Struct):
    subtopology_id: str = ""
    partition: Int32 = 0
    offset: Int64 = 0


class StreamsGroupHeartbeatRequest(Request["StreamsGroupHeartbeatResponse"]):
    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    endpoint_information_epoch: Int32 = 0
    instance_id: Annotated[str | None, V(nullable="0+")] = None
    rack_id: Annotated[str | None, V(nullable="0+")] = None
    rebalance_timeout_ms: Int32 = -1
    topology: Annotated[Topology | None, V(nullable="0+")] = None
    active_tasks: Annotated[list[TaskIds] | None, V(nullable="0+")] = None
    standby_tasks: Annotated[list[TaskIds] | None, V(nullable="0+")] = None
    warmup_tasks: Annotated[list[TaskIds] | None, V(nullable="0+")] = None
    process_id: Annotated[str | None, V(nullable="0+")] = None
    user_endpoint: Annotated[Endpoint | None, V(nullable="0+")] = None
    client_tags: Annotated[list[KeyValue] | None, V(nullable="0+")] = None
    task_offsets: Annotated[list[TaskOffset] | None, V(nullable="0+")] = None
    task_end_offsets: Annotated[list[TaskOffset] | None, V(nullable="0+")] = None
    shutdown_application: Bool = False


class Status(Struct):
    status_code: Int8 = 0
    status_detail: str = ""


class TopicPartition(Struct):
    topic: str = ""
    partitions: list[Int32] = []


class EndpointToPartitions(Struct):
    user_endpoint: Endpoint = Endpoint()
    active_partitions: list[TopicPartition] = []
    standby_partitions: list[TopicPartition] = []


class StreamsGroupHeartbeatResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None
    member_id: str = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag: Int32 = 0
    task_offset_interval_ms: Int32 = 0
    status: Annotated[list[Status] | None, V(nullable="0+")] = []
    active_tasks: Annotated[list[TaskIds] | None, V(nullable="0+")] = None
    standby_tasks: Annotated[list[TaskIds] | None, V(nullable="0+")] = None
    warmup_tasks: Annotated[list[TaskIds] | None, V(nullable="0+")] = None
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: Annotated[list[EndpointToPartitions] | None, V(nullable="0+")] = None
