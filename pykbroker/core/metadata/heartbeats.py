"""Heartbeats: they keep a broker's session, and fence, unfence or stop the broker (KIP-631).

1. A fenced broker is unfenced when it wants to be and has read the metadata log up to its registration.
2. A broker that wants to shut down and leads partitions begins a controlled shutdown, which takes it out of all ISRs.
   The broker may stop once it leads nothing and all active brokers have applied the change of its leaderships. A broker
   that leads nothing may stop at once. Stopping fences it.
3. Directories that the broker reports as offline lose leaderships and ISR memberships (KIP-858). Cordoned ones get no
   new replicas (KIP-1066).
"""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from pykbroker.core.metadata.broker_changes import change_broker
from pykbroker.core.metadata.context import METADATA_FEATURE, ControllerContext, Deciding
from pykbroker.core.metadata.image import BrokerImage
from pykbroker.core.metadata.notices import BrokerGone
from pykbroker.core.metadata.record import CORDONED_LEVEL, DIRECTORIES_LEVEL, Record
from pykbroker.core.steps import Steps
from wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


class BrokerState(Enum):
    """The state of a broker after a heartbeat."""

    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    SHUTDOWN_NOW = auto()


def heartbeat(context: ControllerContext, request: BrokerHeartbeatRequest) -> Deciding:
    """Return the metadata records and the response of a heartbeat. Raise ApiError STALE_BROKER_EPOCH."""
    broker = context.registered(request.broker_id, request.broker_epoch)
    context.sessions.note_contact(broker.id, broker.epoch, context.now_ms)
    context.sessions.note_applied(broker.id, broker.epoch, request.current_metadata_offset)
    # A broker that has not read its own registration has old metadata, and must not lead by it (KIP-631).
    caught_up = request.current_metadata_offset >= context.draft.registration_offset(broker.id)
    state = next_state(context, broker, request, caught_up)
    records = yield from change_broker(context, broker, _changed(context, broker, request, state))
    if state is BrokerState.SHUTDOWN_NOW:
        context.sessions.shut_down(broker.id)
    return records, BrokerHeartbeatResponse(
        is_caught_up=caught_up,
        is_fenced=state in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        should_shut_down=state is BrokerState.SHUTDOWN_NOW,
    )


def next_state(
    context: ControllerContext, broker: BrokerImage, request: BrokerHeartbeatRequest, caught_up: bool
) -> BrokerState:
    """Return the state of the broker after a heartbeat. `caught_up` says that it has read its own registration.

    A broker without an online directory is fenced; it stops by itself.
    """
    unusable = bool(broker.directories) and set(broker.directories) <= set(request.offline_log_dirs)
    if broker.fenced or unusable:
        if request.want_shut_down:
            return BrokerState.SHUTDOWN_NOW
        return BrokerState.UNFENCED if caught_up and not (request.want_fence or unusable) else BrokerState.FENCED
    if broker.in_controlled_shutdown:
        return BrokerState.SHUTDOWN_NOW if _may_stop(context, broker) else BrokerState.CONTROLLED_SHUTDOWN
    if request.want_shut_down:
        # A broker that wants to be fenced as well does not wait for its successors.
        leads = not request.want_fence and context.index.led[broker.id]
        return BrokerState.CONTROLLED_SHUTDOWN if leads else BrokerState.SHUTDOWN_NOW
    return BrokerState.FENCED if request.want_fence else BrokerState.UNFENCED


def _may_stop(context: ControllerContext, broker: BrokerImage) -> bool:
    if context.index.led[broker.id]:
        return False
    # A broker that has not applied the new leaders would still send its clients to the one that stops.
    others = [other for other in context.draft.brokers.values() if other.active]
    return context.sessions.have_applied(
        others, context.index.leadership_lost.get(broker.id, context.draft.first_offset)
    )


def _changed(
    context: ControllerContext, broker: BrokerImage, request: BrokerHeartbeatRequest, state: BrokerState
) -> BrokerImage:
    """Return the broker after the heartbeat. The last online directory stays registered, since records need one."""
    level = context.feature(METADATA_FEATURE)
    directories, cordoned = broker.directories, broker.cordoned
    if level >= DIRECTORIES_LEVEL and request.offline_log_dirs:
        directories = tuple(one for one in directories if one not in request.offline_log_dirs) or directories
    if level >= CORDONED_LEVEL and request.cordoned_log_dirs is not None:
        reported = tuple(sorted(request.cordoned_log_dirs))
        # The same directories in another order are no change, which would cost a record for each heartbeat.
        cordoned = cordoned if set(reported) == set(cordoned) else reported
    return msgspec.structs.replace(
        broker,
        fenced=state in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        in_controlled_shutdown=broker.in_controlled_shutdown or state is BrokerState.CONTROLLED_SHUTDOWN,
        directories=directories,
        cordoned=cordoned,
    )


def broker_gone(context: ControllerContext, notice: BrokerGone) -> Steps[list[Record]]:
    """Return the records that fence a broker if no process listens at its address any more."""
    broker = context.draft.brokers.get(notice.broker_id)
    if broker is None or broker.epoch != notice.broker_epoch or broker.id == context.settings.node_id:
        return []
    context.sessions.disconnect(broker.id, broker.epoch)
    # A connection may also end while the broker runs. Only a refused one proves that no process listens.
    if not notice.refused or broker.fenced:
        return []
    return (yield from change_broker(context, broker, msgspec.structs.replace(broker, fenced=True)))
