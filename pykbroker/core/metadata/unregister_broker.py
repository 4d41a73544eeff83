"""UnregisterBroker: remove a broker's registration, and its replicas from every ISR and ELR (KIP-631)."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.broker_changes import unregister
from pykbroker.core.metadata.context import ControllerContext, Deciding
from wire.error_codes import ErrorCode
from wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


def unregister_broker(context: ControllerContext, request: UnregisterBrokerRequest) -> Deciding:
    """Return the metadata records and the response. The broker may still be running; it can register again."""
    broker = context.draft.brokers.get(request.broker_id)
    if broker is None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {request.broker_id} is not currently registered")
    return (yield from unregister(context, broker)), UnregisterBrokerResponse(error_message=None)
