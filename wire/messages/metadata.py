"""The messages of Metadata (API key 3), versions 0-13, flexible from version 9.

- Version 1 lets `topics` be null in the request. It adds `rack`, `controller_id`, and `is_internal` to the response.
- Version 2 adds `cluster_id` to the response.
- Version 3 adds `throttle_time_ms` to the response.
- Version 4 adds `allow_auto_topic_creation` to the request.
- Version 5 adds `offline_replicas` to the response.
- Version 7 adds `leader_epoch` to the response.
- Version 8 adds `include_cluster_authorized_operations` and `include_topic_authorized_operations` to the request. It
  adds `topic_authorized_operations` and `cluster_authorized_operations` to the response.
- Version 9 is flexible.
- Version 10 adds `topic_id` to the request and lets `name` be null in the request. It adds `topic_id` to the response.
- Version 11 removes `include_cluster_authorized_operations` from the request. It removes
  `cluster_authorized_operations` from the response.
- Version 12 lets `name` be null in the response.
- Version 13 adds `error_code` to the response.
"""

from typing import Annotated

from wire.declare import NIL, UUID, Bool, Int16, Int32, Request, Response, Struct, V


class MetadataRequestTopic(Struct):
    topic_id: Annotated[UUID, V("10+", ignorable=True)] = NIL
    name: Annotated[str | None, V(nullable="10+")] = ""


class MetadataRequest(Request["MetadataResponse"]):
    topics: Annotated[list[MetadataRequestTopic] | None, V(nullable="1+")] = []
    allow_auto_topic_creation: Annotated[Bool, V("4+")] = True
    include_cluster_authorized_operations: Annotated[Bool, V("8-10")] = False
    include_topic_authorized_operations: Annotated[Bool, V("8+")] = False


class MetadataResponseBroker(Struct):
    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: Annotated[str | None, V("1+", nullable="1+", ignorable=True)] = None


class MetadataResponsePartition(Struct):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, V("7+", ignorable=True)] = -1
    replica_nodes: list[Int32] = []
    isr_nodes: list[Int32] = []
    offline_replicas: Annotated[list[Int32], V("5+", ignorable=True)] = []


class MetadataResponseTopic(Struct):
    error_code: Int16 = 0
    name: Annotated[str | None, V(nullable="12+")] = ""
    topic_id: Annotated[UUID, V("10+", ignorable=True)] = NIL
    is_internal: Annotated[Bool, V("1+", ignorable=True)] = False
    partitions: list[MetadataResponsePartition] = []
    topic_authorized_operations: Annotated[Int32, V("8+")] = -(2**31)


class MetadataResponse(Response):
    throttle_time_ms: Annotated[Int32, V("3+", ignorable=True)] = 0
    brokers: list[MetadataResponseBroker] = []
    cluster_id: Annotated[str | None, V("2+", nullable="2+", ignorable=True)] = None
    controller_id: Annotated[Int32, V("1+", ignorable=True)] = -1
    topics: list[MetadataResponseTopic] = []
    cluster_authorized_operations: Annotated[Int32, V("8-10")] = -(2**31)
    error_code: Annotated[Int16, V("13+", ignorable=True)] = 0
