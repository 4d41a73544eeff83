"""UnregisterBroker: remove a broker's registration, and its replicas from every ISR (KIP-631)."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.brokers import leave
from pykbroker.core.metadata.context import ControllerContext, MetadataDecision
from wire.error_codes import ErrorCode
from wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from wire.stored.metadata_brokers import UnregisterBrokerRecord


def unregister_broker(context: ControllerContext, request: UnregisterBrokerRequest) -> MetadataDecision:
    """Return the metadata records and the response. The broker may still be running; it can register again."""
    broker = context.draft.brokers.get(request.broker_id)
    if broker is None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {request.broker_id} is not currently registered")
    gone = UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)
    return [*leave(context, broker.id), gone], UnregisterBrokerResponse(error_message=None)
