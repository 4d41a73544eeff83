"""The verification of transactional batches by a coordinator on another broker: AddPartitionsToTxn 4-5 (KIP-890)."""

from __future__ import annotations

from pykbroker.coordinator.cluster import PeerBrokers
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode
from wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)


async def admit_at(
    peers: PeerBrokers,
    node_id: int,
    transactional_id: str,
    producer_id: int,
    epoch: int,
    partitions: frozenset[TopicPartition],
    *,
    add: bool,
) -> dict[TopicPartition, ErrorCode]:
    """Ask the coordinator whether the transaction may write to these partitions.

    Return the refused partitions with their errors. Without a response, all have NETWORK_EXCEPTION. With `add`, the
    coordinator adds the partitions to the transaction.
    """
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    asked = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        verify_only=not add,
        topics=[AddPartitionsToTxnTopic(name, indexes) for name, indexes in topics.items()],
    )
    try:
        response = await peers.ask(node_id, AddPartitionsToTxnRequest(transactions=[asked]))
    except ApiError as error:
        return dict.fromkeys(partitions, error.code)
    if response.error_code:
        return dict.fromkeys(partitions, ErrorCode(response.error_code))
    codes = {
        TopicPartition(topic.name, one.partition_index): ErrorCode(one.partition_error_code)
        for answered in response.results_by_transaction
        for topic in answered.topic_results
        for one in topic.results_by_partition
    }
    return {place: code for place in partitions if (code := codes.get(place, ErrorCode.UNKNOWN_SERVER_ERROR))}
