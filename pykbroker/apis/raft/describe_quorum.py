"""DescribeQuorum (55), v0-2: return the voters of the metadata log and the log end offset of each (KIP-595).

v1 timestamps (KIP-836)   v2 error messages, directory ids, addresses of the voters (KIP-853)
This node is the only voter. The only voter is always the leader. Nodes that fetch its log are observers.
"""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.names import CLUSTER_METADATA_TOPIC
from pykbroker.quorum.controller import Controller
from pykbroker.server.endpoints import BrokerEndpoints
from pykbroker.server.handler import ApiHandler, RequestContext
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)

METADATA_PARTITION = [DescribeQuorumRequestTopicData(CLUSTER_METADATA_TOPIC, [DescribeQuorumRequestPartitionData(0)])]
"""The only partition that can be described."""
NODES_VERSION_FIRST = 2
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class DescribeQuorum(ApiHandler, frozen=True):
    """A handler that returns the voter, with its directory id if the log records the voters, and the observers.

    `has_listeners` is true if the controller has listeners of its own.
    """

    node_id: int
    controller: Controller
    endpoints: BrokerEndpoints
    wall_ms: Callable[[], int]
    has_listeners: bool

    def __call__(self, context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
        if request.topics != METADATA_PARTITION:
            return unknown(request)
        image, now_ms = self.controller.images.committed, self.wall_ms()
        voter = ReplicaState(
            self.node_id, log_end_offset=image.offset + 1, last_fetch_timestamp=now_ms, last_caught_up_timestamp=now_ms
        )
        with_directories = context.version >= NODES_VERSION_FIRST
        if with_directories and self.controller.kraft_version:
            voter.replica_directory_id = self.controller.voter.directory_id
        observers = [
            ReplicaState(
                one.replica_id,
                one.directory_id if with_directories else NIL,
                one.log_end_offset,
                one.fetched_ms,
                one.caught_up_ms,
            )
            for one in self.controller.fetches.observers.current(now_ms)
        ]
        partition = DescribeQuorumResponsePartitionData(
            leader_id=self.node_id,
            leader_epoch=self.controller.epoch,
            high_watermark=image.offset + 1,
            current_voters=[voter],
            observers=observers,
        )
        response = DescribeQuorumResponse(topics=[DescribeQuorumResponseTopicData(CLUSTER_METADATA_TOPIC, [partition])])
        if with_directories:
            response.nodes.append(Node(self.node_id, self._listeners(context, image)))
        return response

    def _listeners(self, context: RequestContext, image: MetadataImage) -> list[Listener]:
        """Return the listeners of the voter. A controller that has none is reached as the broker is."""
        registered = image.cluster.controllers[self.node_id].endpoints
        if self.has_listeners:
            return [Listener(one.name, one.host, one.port) for one in registered]
        own = self.endpoints.own(context.session)
        return [Listener(one.name, own.host, own.port) for one in registered]


def unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Return UNKNOWN_TOPIC_OR_PARTITION for every requested partition."""
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponseTopicData(
                topic.topic_name,
                [
                    DescribeQuorumResponsePartitionData(one.partition_index, UNKNOWN, UNKNOWN.message)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
