"""The transaction markers for partitions that other brokers lead: WriteTxnMarkers requests (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterable

from pykbroker.coordinator.cluster import PeerBrokers
from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Marker
from pykbroker.core.topic_partition import TopicPartition, indexes_by_topic
from wire.error_codes import ErrorCode, error_code
from wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest


async def write_at(
    peers: PeerBrokers, node_id: int, marker: Marker, places: Iterable[TopicPartition]
) -> dict[TopicPartition, ApiError]:
    """Write a marker to partitions that another broker leads. Return the partitions that failed, with their errors."""
    places = list(places)
    try:
        response = await peers.ask(node_id, marker_request(marker, places))
    except ApiError as error:
        return dict.fromkeys(places, error)
    codes = {
        TopicPartition(topic.name, partition.partition_index): partition.error_code
        for answered in response.markers
        for topic in answered.topics
        for partition in topic.partitions
    }
    missing = ErrorCode.UNKNOWN_SERVER_ERROR
    return {place: ApiError(error_code(code)) for place in places if (code := codes.get(place, missing))}


def marker_request(marker: Marker, places: Iterable[TopicPartition]) -> WriteTxnMarkersRequest:
    """Return the request that writes one marker to these partitions."""
    asked = WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.commit,
        topics=[WritableTxnMarkerTopic(*each) for each in indexes_by_topic(places).items()],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )
    return WriteTxnMarkersRequest([asked])
