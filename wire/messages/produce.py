"""The messages of Produce (API key 0), versions 3-13, flexible from version 9.

- Version 5 adds `log_start_offset` to the response.
- Version 8 adds `record_errors` and `error_message` to the response.
- Version 9 is flexible.
- Version 10 adds `current_leader` and `node_endpoints` to the response.
- Version 13 adds `topic_id` to the request and removes `name` from the request. It adds `topic_id` to the response and
  removes `name` from the response.
"""

from typing import Annotated

from wire.declare import NIL, UUID, FrozenStruct, Int16, Int32, Int64, Records, Request, Response, Struct, V


class PartitionProduceData(Struct):
    index: Int32 = 0
    records: Annotated[Records, V(nullable="0+")] = None


class TopicProduceData(Struct):
    name: Annotated[str, V("0-12", ignorable=True)] = ""
    topic_id: Annotated[UUID, V("13+", ignorable=True)] = NIL
    partition_data: list[PartitionProduceData] = []


class ProduceRequest(Request["ProduceResponse"]):
    transactional_id: Annotated[str | None, V("3+", nullable="3+")] = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = []


class BatchIndexAndErrorMessage(Struct):
    batch_index: Annotated[Int32, V("8+")] = 0
    batch_index_error_message: Annotated[str | None, V("8+", nullable="8+")] = None


class LeaderIdAndEpoch(FrozenStruct, frozen=True):
    leader_id: Annotated[Int32, V("10+")] = -1
    leader_epoch: Annotated[Int32, V("10+")] = -1


class PartitionProduceResponse(Struct):
    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Annotated[Int64, V("2+", ignorable=True)] = -1
    log_start_offset: Annotated[Int64, V("5+", ignorable=True)] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], V("8+", ignorable=True)] = []
    error_message: Annotated[str | None, V("8+", nullable="8+", ignorable=True)] = None
    current_leader: Annotated[LeaderIdAndEpoch, V("10+", tag=0)] = LeaderIdAndEpoch()


class TopicProduceResponse(Struct):
    name: Annotated[str, V("0-12", ignorable=True)] = ""
    topic_id: Annotated[UUID, V("13+", ignorable=True)] = NIL
    partition_responses: list[PartitionProduceResponse] = []


class NodeEndpoint(Struct):
    node_id: Annotated[Int32, V("10+")] = 0
    host: Annotated[str, V("10+")] = ""
    port: Annotated[Int32, V("10+")] = 0
    rack: Annotated[str | None, V("10+", nullable="10+")] = None


class ProduceResponse(Response):
    responses: list[TopicProduceResponse] = []
    throttle_time_ms: Annotated[Int32, V("1+", ignorable=True)] = 0
    node_endpoints: Annotated[list[NodeEndpoint], V("10+", tag=0)] = []
