"""The requests with which an observer fetches the metadata log and its snapshots."""

from __future__ import annotations

import msgspec

from pykbroker.core.log.epochs import OffsetAndEpoch
from pykbroker.core.names import CLUSTER_METADATA_TOPIC
from pykbroker.quorum.metadata_log import METADATA_TOPIC_ID
from pykbroker.quorum.observer_settings import ObserverSettings
from wire.errors import DecodeError
from wire.messages import fetch_snapshot
from wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData, ReplicaState
from wire.messages.fetch_snapshot import FetchSnapshotRequest


class ObserverIds(msgspec.Struct, frozen=True):
    """The ids with which an observer presents itself to the leader."""

    cluster_id: str
    node_id: int
    directory_id: bytes


def fetch_request(
    ids: ObserverIds,
    settings: ObserverSettings,
    broker_epoch: int,
    epoch: int,
    log_end_offset: int,
    last_epoch: int,
    high_watermark: int,
) -> FetchRequest:
    """Return the request for the records after the end of the observer's log.

    `broker_epoch` is -1 until the broker is registered.
    """
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=log_end_offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=settings.fetch_bytes_max,
        replica_directory_id=ids.directory_id,
        high_watermark=high_watermark,
    )
    return FetchRequest(
        cluster_id=ids.cluster_id,
        replica_state=ReplicaState(ids.node_id, broker_epoch),
        max_wait_ms=settings.wait_ms,
        max_bytes=settings.fetch_bytes_max,
        topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def fetched_partition(response: FetchResponse) -> PartitionData:
    """Return the result for the metadata log. Raise DecodeError if a response without an error lacks it."""
    for topic in response.responses:
        for partition in topic.partitions:
            return partition
    if response.error_code:
        return PartitionData(error_code=response.error_code)
    raise DecodeError("a response to a fetch of the metadata log has no partition")


def snapshot_request(
    ids: ObserverIds, epoch: int, snapshot: OffsetAndEpoch, position: int, bytes_max: int
) -> FetchSnapshotRequest:
    """Return the request for the next part of a snapshot, of at most `bytes_max`."""
    asked = fetch_snapshot.FetchSnapshotRequestPartitionSnapshot(
        partition=0,
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot.SnapshotId(snapshot.offset, snapshot.epoch),
        position=position,
        replica_directory_id=ids.directory_id,
    )
    topic = fetch_snapshot.FetchSnapshotRequestTopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=[asked])
    return FetchSnapshotRequest(cluster_id=ids.cluster_id, replica_id=ids.node_id, max_bytes=bytes_max, topics=[topic])
