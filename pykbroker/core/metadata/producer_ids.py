"""AllocateProducerIds (KIP-730): allocate a block of producer ids to a broker."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.context import ControllerContext, MetadataDecision
from wire.error_codes import ErrorCode
from wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from wire.stored.metadata_settings import ProducerIdsRecord

BLOCK_IDS = 1_000
"""The number of ids in a block, as in Kafka (`ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE`)."""
PRODUCER_ID_MAX = 2**63 - 1


def allocate_producer_ids(context: ControllerContext, request: AllocateProducerIdsRequest) -> MetadataDecision:
    """Return the record and the response, with the next block.

    An id is never allocated twice, even if a broker stops with unused ids.
    """
    broker = context.registered(request.broker_id, request.broker_epoch)
    start = context.draft.next_producer_id
    if start > PRODUCER_ID_MAX - BLOCK_IDS:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit",
        )
    record = ProducerIdsRecord(broker_id=broker.id, broker_epoch=broker.epoch, next_producer_id=start + BLOCK_IDS)
    return [record], AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=BLOCK_IDS)
