"""Registration of brokers and controllers (KIP-631).

1. A broker is registered as fenced, with an epoch that is the offset of its registration. A heartbeat unfences it.
2. A registration of the same incarnation amends the earlier one, and keeps its epoch and state.
3. A registration that names the previous epoch of the broker proves a clean shutdown. Without it, the broker may have
   lost acknowledged records, and leaves every ISR and ELR first. After a clean shutdown, a replica leaves
   them only if the broker no longer has its directory, for example because the disk was replaced.
4. The controller's own broker runs in the same process, so any earlier incarnation of it has ended, and no other
   process may have its id. Its supported features were checked when it started.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import asdict

from pykbroker.core.errors import ApiError
from pykbroker.core.ids import id_text, is_directory
from pykbroker.core.metadata.broker_changes import broker_record, everywhere
from pykbroker.core.metadata.context import METADATA_FEATURE, ControllerContext, Deciding, MetadataDecision
from pykbroker.core.metadata.image import BrokerImage
from pykbroker.core.metadata.partition_change import repairs
from pykbroker.core.metadata.record import DIRECTORIES_LEVEL, Record
from pykbroker.core.steps import Steps
from pykbroker.core.topic_partition import TopicIdPartition
from wire.error_codes import ErrorCode
from wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from wire.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from wire.stored.metadata_brokers import (
    BrokerEndpoint,
    BrokerFeature,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)


def register_broker(context: ControllerContext, request: BrokerRegistrationRequest) -> Deciding:
    """Return the metadata records and the response of a registration."""
    old = context.draft.brokers.get(request.broker_id)
    _check(context, request, old)
    record = _registration(context, request)
    if old is not None and old.incarnation_id == request.incarnation_id:
        # The same process registers again, such as after a lost response. It keeps its epoch and its state.
        record.broker_epoch, record.fenced = old.epoch, old.fenced
        record.in_controlled_shutdown = old.in_controlled_shutdown
        record.cordoned_log_dirs = list(old.cordoned) or None
        context.sessions.note_contact(old.id, old.epoch, context.now_ms)
        return [record], BrokerRegistrationResponse(broker_epoch=old.epoch)
    records: list[Record] = []
    gone = None if old is None else msgspec.structs.replace(old, fenced=True)
    if old is not None and gone is not None and (fencing := broker_record(old, gone)) is not None:
        records.append(fencing)
    # The partitions are decided as if the broker were fenced, so that it is elected nowhere.
    before = context.changing(request.broker_id, gone)
    # A broker names this epoch after a clean shutdown. After any other it may have lost acknowledged records (KIP-966).
    clean = old is not None and request.previous_broker_epoch == old.epoch
    kept, lost = yield from _split(before, request, clean=clean)
    records += yield from repairs(before, kept)
    records += yield from repairs(before, lost, lost=request.broker_id)
    return [*records, record], BrokerRegistrationResponse(broker_epoch=record.broker_epoch)


def _split(
    context: ControllerContext, request: BrokerRegistrationRequest, *, clean: bool
) -> Steps[tuple[list[TopicIdPartition], list[TopicIdPartition]]]:
    """Return the partitions that the broker must leave: those that it kept in full, and those that it may have lost.

    After a clean shutdown, the broker has lost the replicas in directories that it no longer has.
    """
    kept: list[TopicIdPartition] = []
    lost: list[TopicIdPartition] = []
    broker_id, directories = request.broker_id, request.log_dirs
    for partition in everywhere(context, broker_id):
        topic_id, number = partition
        directory = context.draft.topics[topic_id].partitions[number].directory(broker_id)
        # A reserved id names no directory that could be missing. A broker older than 3.7 registers none.
        there = directory in directories or not is_directory(directory) or not directories
        (kept if clean and there else lost).append(partition)
        yield
    return kept, lost


def _check(context: ControllerContext, request: BrokerRegistrationRequest, old: BrokerImage | None) -> None:
    """Raise ApiError if the broker cannot be registered."""
    settings = context.settings
    if request.cluster_id != settings.cluster_id:
        raise ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {settings.cluster_id}, but got cluster ID {request.cluster_id}",
        )
    if _runs_elsewhere(context, request, old):
        raise ApiError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            "Another broker is registered with that broker id. If the broker was recently restarted this should "
            "self-resolve once the heartbeat manager expires the broker's session.",
        )
    _check_directories(context, request)
    if request.broker_id != settings.node_id:
        _check_features(context, request)


def _runs_elsewhere(context: ControllerContext, request: BrokerRegistrationRequest, old: BrokerImage | None) -> bool:
    """Whether a broker with this id seems to run in another process than the one that asks."""
    settings = context.settings
    if request.broker_id == settings.node_id and settings.incarnation_id is not None:
        return request.incarnation_id != settings.incarnation_id
    return (
        old is not None
        and old.incarnation_id != request.incarnation_id
        and context.sessions.blocks(old, request.log_dirs, context.now_ms)
    )


def _check_directories(context: ControllerContext, request: BrokerRegistrationRequest) -> None:
    if context.feature(METADATA_FEATURE) < DIRECTORIES_LEVEL:
        return
    directories = request.log_dirs
    if not directories:
        raise ApiError(ErrorCode.INVALID_REGISTRATION, "No directories specified in request")
    if not all(map(is_directory, directories)):
        raise ApiError(ErrorCode.INVALID_REGISTRATION, "Reserved directory ID in request")
    if len(set(directories)) != len(directories):
        raise ApiError(ErrorCode.INVALID_REGISTRATION, "Duplicate directory ID in request")
    for broker in context.draft.brokers.values():
        for directory in directories if broker.id != request.broker_id else ():
            if directory in broker.directories:
                raise ApiError(
                    ErrorCode.INVALID_REGISTRATION,
                    f"Broker {broker.id} is already registered with directory {id_text(directory)}",
                )


def _check_features(context: ControllerContext, request: BrokerRegistrationRequest) -> None:
    """Check that the broker supports each finalized feature. A feature that it does not name is supported at 0."""
    supported = {feature.name: feature for feature in request.features}
    if METADATA_FEATURE not in supported:
        raise ApiError(ErrorCode.INVALID_REGISTRATION, f"Request features do not contain '{METADATA_FEATURE}'")
    for name, level in context.draft.features.items():
        feature = supported.get(name)
        least, most = (feature.min_supported_version, feature.max_supported_version) if feature else (0, 0)
        if level and not least <= level <= most:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} of {name}. "
                f"The broker wants a version between {least} and {most}, inclusive.",
            )


def _registration(context: ControllerContext, request: BrokerRegistrationRequest) -> RegisterBrokerRecord:
    """Return the record of a new registration. Its epoch is the first offset of this decision."""
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=context.next_offset,
        rack=request.rack,
        end_points=[BrokerEndpoint(**asdict(listener)) for listener in request.listeners],
        features=[BrokerFeature(**asdict(feature)) for feature in request.features],
        fenced=True,
        log_dirs=list(request.log_dirs) if context.feature(METADATA_FEATURE) >= DIRECTORIES_LEVEL else [],
    )


def register_controller(context: ControllerContext, request: ControllerRegistrationRequest) -> MetadataDecision:
    """Return the record and the response of a controller's registration."""
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        end_points=[ControllerEndpoint(**asdict(listener)) for listener in request.listeners],
        features=[ControllerFeature(**asdict(feature)) for feature in request.features],
    )
    return [record], ControllerRegistrationResponse(error_message=None)
