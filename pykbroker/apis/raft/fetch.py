"""Fetch (1), v17-18: return records of the metadata log to an observer, on the controller's listeners (KIP-595).

v17 directory id (KIP-853)   v18 high watermark that the observer knows (KIP-1166)
An observer of pykbroker names as its high watermark only what it has applied, and is known by its client id.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.core.ids import UNASSIGNED
from pykbroker.core.raft.fetch_position import Diverging
from pykbroker.core.security.rights import FETCH_METADATA_LOG, may
from pykbroker.quorum.applied_offsets import names_applied
from pykbroker.quorum.controller import Controller
from pykbroker.quorum.metadata_fetches import Fetched, MetadataFetch
from pykbroker.server.endpoints import BrokerEndpoints
from pykbroker.server.handler import Answer, Handler, Later, RequestContext
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)

METADATA_TOPIC_ID = UNASSIGNED
KNOWN_VERSION_FIRST = 18
"""The first version that has the observer's high watermark."""


class MetadataLogFetch(Handler, msgspec.Struct, frozen=True):
    """A handler for the metadata log alone."""

    key: ClassVar = ApiKey.FETCH
    versions: ClassVar[str] = "17-18"
    node_id: int
    cluster_id: str
    controller: Controller
    endpoints: BrokerEndpoints

    def __call__(self, context: RequestContext, request: FetchRequest) -> Answer:
        if not may(context, FETCH_METADATA_LOG):
            return FetchResponse(error_code=FETCH_METADATA_LOG.code)
        if request.cluster_id not in (None, self.cluster_id):
            return FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        asked = metadata_partition(request)
        if asked is None:
            return FetchResponse(error_code=ErrorCode.INVALID_REQUEST)
        if asked.fetch_offset < 0 or asked.last_fetched_epoch < 0 or asked.current_leader_epoch < 0:
            return self._response(context, PartitionData(error_code=ErrorCode.INVALID_REQUEST))
        if context.version >= KNOWN_VERSION_FIRST and names_applied(context.client_id):
            state = request.replica_state
            self.controller.note_applied(state.replica_id, state.replica_epoch, asked.high_watermark - 1)
        return Later(self._fetch(context, request, asked), holds_connection=False)

    async def _fetch(self, context: RequestContext, request: FetchRequest, asked: FetchPartition) -> FetchResponse:
        wanted = MetadataFetch(
            asked.current_leader_epoch,
            asked.fetch_offset,
            asked.last_fetched_epoch,
            asked.high_watermark,
            request.max_bytes,
        )
        replica = request.replica_state.replica_id
        try:
            found = await self.controller.fetches.fetch(
                wanted, replica, asked.replica_directory_id, request.max_wait_ms
            )
        except ApiError as error:
            return self._response(context, PartitionData(error_code=error.code))
        return self._response(context, described(found))

    def _response(self, context: RequestContext, data: PartitionData) -> FetchResponse:
        """Return a response with the partition, the current leader and its endpoint."""
        data.current_leader = LeaderIdAndEpoch(self.node_id, self.controller.epoch)
        leader = NodeEndpoint(self.node_id, *self.endpoints.controller_address(context.session))
        return FetchResponse(
            responses=[FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[data])], node_endpoints=[leader]
        )


def metadata_partition(request: FetchRequest) -> FetchPartition | None:
    """Return the partition of the metadata log if the request has no other partition, else None."""
    if len(request.topics) != 1 or request.topics[0].topic_id != METADATA_TOPIC_ID:
        return None
    partitions = request.topics[0].partitions
    return partitions[0] if len(partitions) == 1 and partitions[0].partition == 0 else None


def described(found: Fetched) -> PartitionData:
    """Return the records, or the end of the epoch in which the logs diverge, or the snapshot to read first."""
    data = PartitionData(
        high_watermark=found.high_watermark,
        log_start_offset=found.log_start_offset,
        records=found.records,
        aborted_transactions=None,
    )
    if isinstance(found.why_not, Diverging):
        data.diverging_epoch = EpochEndOffset(found.why_not.at.epoch, found.why_not.at.offset)
    elif found.why_not is not None:
        data.snapshot_id = SnapshotId(found.why_not.snapshot.offset, found.why_not.snapshot.epoch)
    return data
