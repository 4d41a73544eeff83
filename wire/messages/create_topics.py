"""The messages of CreateTopics (API key 19), versions 2-7, flexible from version 5.

- Version 5 is flexible and adds `topic_config_error_code`, `num_partitions`, `replication_factor`, and `configs` to
  the response.
- Version 7 adds `topic_id` to the response.
"""

from typing import Annotated

from wire.declare import NIL, UUID, Bool, Int8, Int16, Int32, Request, Response, Struct, V


class CreatableReplicaAssignment(Struct):
    partition_index: Int32 = 0
    broker_ids: list[Int32] = []


class CreatableTopicConfig(Struct):
    name: str = ""
    value: Annotated[str | None, V(nullable="0+", sensitive=True)] = ""


class CreatableTopic(Struct):
    name: str = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: list[CreatableReplicaAssignment] = []
    configs: list[CreatableTopicConfig] = []


class CreateTopicsRequest(Request["CreateTopicsResponse"]):
    topics: list[CreatableTopic] = []
    timeout_ms: Int32 = 60000
    validate_only: Annotated[Bool, V("1+")] = False


class CreatableTopicConfigs(Struct):
    name: Annotated[str, V("5+")] = ""
    value: Annotated[str | None, V("5+", nullable="5+", sensitive=True)] = ""
    read_only: Annotated[Bool, V("5+")] = False
    config_source: Annotated[Int8, V("5+", ignorable=True)] = -1
    is_sensitive: Annotated[Bool, V("5+")] = False


class CreatableTopicResult(Struct):
    name: str = ""
    topic_id: Annotated[UUID, V("7+", ignorable=True)] = NIL
    error_code: Int16 = 0
    error_message: Annotated[str | None, V("1+", nullable="0+", ignorable=True)] = ""
    topic_config_error_code: Annotated[Int16, V("5+", tag=0, ignorable=True)] = 0
    num_partitions: Annotated[Int32, V("5+", ignorable=True)] = -1
    replication_factor: Annotated[Int16, V("5+", ignorable=True)] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, V("5+", nullable="5+", ignorable=True)] = []


class CreateTopicsResponse(Response):
    throttle_time_ms: Annotated[Int32, V("2+", ignorable=True)] = 0
    topics: list[CreatableTopicResult] = []
