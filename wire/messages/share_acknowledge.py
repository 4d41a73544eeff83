"""The messages of ShareAcknowledge (API key 79), versions 1-2, all flexible.

- Version 2 adds `is_renew_ack` to the request. It adds `acquisition_lock_timeout_ms` to the response.
"""

from typing import Annotated

from wire.declare import NIL, UUID, Bool, Int16, Int32, Request, Response, Struct, V
from wire.messages.share_fetch import AcknowledgementBatch, LeaderIdAndEpoch, NodeEndpoint


class AcknowledgePartition(Struct):
    partition_index: Int32 = 0
    acknowledgement_batches: list[AcknowledgementBatch] = []


class AcknowledgeTopic(Struct):
    topic_id: UUID = NIL
    partitions: list[AcknowledgePartition] = []


class ShareAcknowledgeRequest(Request["ShareAcknowledgeResponse"]):
    group_id: Annotated[str | None, V(nullable="0+")] = None
    member_id: Annotated[str | None, V(nullable="0+")] = ""
    share_session_epoch: Int32 = 0
    is_renew_ack: Annotated[Bool, V("2+")] = False
    topics: list[AcknowledgeTopic] = []


class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: UUID = NIL
    partitions: list[PartitionData] = []


class ShareAcknowledgeResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = None
    acquisition_lock_timeout_ms: Annotated[Int32, V("2+", ignorable=True)] = 0
    responses: list[ShareAcknowledgeTopicResponse] = []
    node_endpoints: list[NodeEndpoint] = []
