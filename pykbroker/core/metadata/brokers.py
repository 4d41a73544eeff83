"""Registration, fencing and controlled shutdown of brokers, and registration of controllers.

1. A broker is registered as fenced, with an epoch that is the offset of its registration. A heartbeat unfences it.
2. An unfenced broker may lead its partitions again, each with a new leader epoch.
3. A registration that names the previous epoch of the broker proves a clean shutdown. Without it, the broker may have
   lost acknowledged records, and is first removed from every ISR and ELR.
4. The controller's own broker runs in the same process, so any earlier incarnation of it has ended. Its supported
   features were checked when it started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.context import ControllerContext, MetadataDecision
from pykbroker.core.metadata.election import change_record, elect
from pykbroker.core.metadata.image import BrokerImage
from pykbroker.core.metadata.record import Record
from wire.error_codes import ErrorCode
from wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from wire.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from wire.stored.metadata_brokers import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)

FENCE, UNFENCE = 1, -1
IN_CONTROLLED_SHUTDOWN = 1


def register_broker(context: ControllerContext, request: BrokerRegistrationRequest) -> MetadataDecision:
    """Return the metadata records and the response of a registration.

    The broker is fenced. It is removed from every ISR that still contains it.
    """
    _check_registration(context, request)
    old = context.draft.brokers.get(request.broker_id)
    records: list[Record] = []
    if old is not None and old.incarnation_id != request.incarnation_id:
        if not old.fenced or request.previous_broker_epoch != old.epoch:
            records += leave(context, old.id, lost=request.previous_broker_epoch != old.epoch)
        if not old.fenced:
            records.append(_switch(old, fenced=FENCE))
    records.append(_registration(context.next_offset, request))
    return records, BrokerRegistrationResponse(broker_epoch=context.next_offset)


def _check_registration(context: ControllerContext, request: BrokerRegistrationRequest) -> None:
    settings = context.settings
    if request.cluster_id != settings.cluster_id:
        raise ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {settings.cluster_id}, but got cluster ID {request.cluster_id}",
        )
    old = context.draft.brokers.get(request.broker_id)
    if (
        old is not None
        and not old.fenced
        and old.id != settings.node_id
        and old.incarnation_id != request.incarnation_id
    ):
        raise ApiError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "Another broker is registered with that broker id.")
    for feature in request.features if request.broker_id != settings.node_id else ():
        level = context.feature(feature.name)
        if level and not feature.min_supported_version <= level <= feature.max_supported_version:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} of {feature.name}. "
                f"The broker wants a version between {feature.min_supported_version} and "
                f"{feature.max_supported_version}, inclusive.",
            )


def _registration(epoch: int, request: BrokerRegistrationRequest) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        rack=request.rack,
        end_points=[
            BrokerEndpoint(
                name=listener.name, host=listener.host, port=listener.port, security_protocol=listener.security_protocol
            )
            for listener in request.listeners
        ],
        features=[
            BrokerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ],
        fenced=True,
        log_dirs=list(request.log_dirs),
    )


def heartbeat(context: ControllerContext, request: BrokerHeartbeatRequest) -> MetadataDecision:
    """Return the metadata records and the response of a heartbeat, which fences, unfences or shuts down the broker.

    The broker may shut down once it has lost its leaderships.
    """
    broker = context.registered(request.broker_id, request.broker_epoch)
    records: list[Record] = []
    fenced, should_shut_down = broker.fenced, False
    caught_up = request.current_metadata_offset >= broker.epoch
    if request.want_shut_down:
        should_shut_down = not broker.active
        records = _shut_down(context, broker)
        fenced = should_shut_down
    elif request.want_fence and not broker.fenced:
        records, fenced = [*leave(context, broker.id), _switch(broker, fenced=FENCE)], True
    elif not request.want_fence and broker.fenced and caught_up:
        records, fenced = [_switch(broker, fenced=UNFENCE), *_return(context, broker.id)], False
    return records, BrokerHeartbeatResponse(is_caught_up=caught_up, is_fenced=fenced, should_shut_down=should_shut_down)


def _shut_down(context: ControllerContext, broker: BrokerImage) -> list[Record]:
    if broker.active:
        return [_switch(broker, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN), *leave(context, broker.id)]
    return [] if broker.fenced else [_switch(broker, fenced=FENCE)]


def _switch(broker: BrokerImage, fenced: int = 0, in_controlled_shutdown: int = 0) -> Record:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, fenced=fenced, in_controlled_shutdown=in_controlled_shutdown
    )


def leave(context: ControllerContext, broker_id: int, *, lost: bool = False) -> Iterable[Record]:
    """Return the records that remove the broker from every ISR.

    With `lost`, the broker may lack committed records, so it is removed from every ELR too.
    """
    return _changes(
        context,
        broker_id,
        leaves=True,
        lost=broker_id if lost else None,
        acceptable=lambda replica: replica != broker_id and context.active(replica),
    )


def _return(context: ControllerContext, broker_id: int) -> Iterable[Record]:
    """Return the records that elect the returning broker as leader of partitions that have no leader."""
    return _changes(
        context,
        broker_id,
        leaves=False,
        lost=None,
        acceptable=lambda replica: replica == broker_id or context.active(replica),
    )


def _changes(
    context: ControllerContext, broker_id: int, *, leaves: bool, lost: int | None, acceptable: Callable[[int], bool]
) -> Iterable[Record]:
    for topic in context.draft.names.values():
        rules = context.rules(topic.name)
        for index, partition in topic.partitions.items():
            if broker_id in partition.replicas:
                isr = tuple(member for member in partition.isr if not (leaves and member == broker_id))
                seats = elect(partition, isr, acceptable, rules, lost)
                if (record := change_record(topic.id, index, partition, seats)) is not None:
                    yield record


def register_controller(context: ControllerContext, request: ControllerRegistrationRequest) -> MetadataDecision:
    """Return the record and the response of a controller's registration."""
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        end_points=[
            ControllerEndpoint(
                name=listener.name, host=listener.host, port=listener.port, security_protocol=listener.security_protocol
            )
            for listener in request.listeners
        ],
        features=[
            ControllerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ],
    )
    return [record], ControllerRegistrationResponse(error_message=None)
