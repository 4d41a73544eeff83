"""FetchSnapshot (59), v0-1: return a part of a snapshot of the metadata log to an observer (KIP-630).

v1 directory id, the leader's endpoint (KIP-853)
"""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.log.epochs import OffsetAndEpoch
from pykbroker.core.names import CLUSTER_METADATA_TOPIC
from pykbroker.quorum.metadata_fetches import MetadataFetches
from pykbroker.server.endpoints import BrokerEndpoints
from pykbroker.server.handler import Answer, ApiHandler, Later, RequestContext
from wire.error_codes import ErrorCode
from wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotResponse,
    FetchSnapshotResponsePartitionSnapshot,
    FetchSnapshotResponseTopicSnapshot,
    LeaderIdAndEpoch,
    NodeEndpoint,
)

ENDPOINT_VERSION_FIRST = 1


class FetchSnapshot(ApiHandler, frozen=True):
    """A handler for the snapshots of the metadata log."""

    node_id: int
    cluster_id: str
    fetches: MetadataFetches
    endpoints: BrokerEndpoints

    def __call__(self, context: RequestContext, request: FetchSnapshotRequest) -> Answer:
        if request.cluster_id not in (None, self.cluster_id):
            return FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            return FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST)
        (topic,), (asked,) = request.topics, request.topics[0].partitions
        if topic.name != CLUSTER_METADATA_TOPIC or asked.partition != 0:
            return self._response(
                context,
                topic.name,
                FetchSnapshotResponsePartitionSnapshot(
                    index=asked.partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, unaligned_records=b""
                ),
            )
        return Later(self._read(context, asked, request.max_bytes), holds_connection=False)

    async def _read(
        self, context: RequestContext, asked: FetchSnapshotRequestPartitionSnapshot, bytes_max: int
    ) -> FetchSnapshotResponse:
        part = FetchSnapshotResponsePartitionSnapshot(snapshot_id=asked.snapshot_id, position=asked.position)
        wanted = OffsetAndEpoch(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        try:
            self.fetches.check_epoch(asked.current_leader_epoch)
            part.size, part.unaligned_records = await self.fetches.read_snapshot(wanted, asked.position, bytes_max)
        except ApiError as error:
            part.error_code, part.unaligned_records = error.code, b""
        return self._response(context, CLUSTER_METADATA_TOPIC, part)

    def _response(
        self, context: RequestContext, topic: str, part: FetchSnapshotResponsePartitionSnapshot
    ) -> FetchSnapshotResponse:
        part.current_leader = LeaderIdAndEpoch(self.node_id, self.fetches.epoch)
        response = FetchSnapshotResponse(topics=[FetchSnapshotResponseTopicSnapshot(topic, [part])])
        if context.version >= ENDPOINT_VERSION_FIRST:
            response.node_endpoints = [NodeEndpoint(self.node_id, *self.endpoints.controller_address(context.session))]
        return response
