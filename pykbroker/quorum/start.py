"""The start of a controller: replay the log, begin a new epoch, and write the first records of a new cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from pykbroker.core.errors import StartError
from pykbroker.core.ids import Randomness, id_text
from pykbroker.core.metadata.bootstrap import bootstrap_records, feature_records
from pykbroker.core.metadata.context import METADATA_FEATURE, ControllerConfigs
from pykbroker.core.metadata.features import KRAFT_FEATURE, NEW_CLUSTER, check_levels, unsupported
from pykbroker.core.metadata.image import Delta, Endpoint, MetadataImage
from pykbroker.core.metadata.machine import ControllerMachine
from pykbroker.core.metadata.record import Record
from pykbroker.core.metadata.replay import DamagedMetadata
from pykbroker.core.metadata.settings import ControllerSettings
from pykbroker.core.steps import finish
from pykbroker.quorum.bootstrap_file import BOOTSTRAP_FILE, read_bootstrap
from pykbroker.quorum.controller import Controller, RecordedVoter
from pykbroker.quorum.driver import Driver
from pykbroker.quorum.images import Images
from pykbroker.quorum.journal import METADATA_DIRECTORY, MetadataJournal, ReplicatedJournal
from pykbroker.quorum.metadata_fetches import MetadataFetches
from pykbroker.quorum.quorum_state import QuorumState, read_state, require_cluster
from pykbroker.quorum.recovery import Recovered, recover
from pykbroker.quorum.rules import LogRules
from pykbroker.quorum.snapshot_file import QuorumRecord
from pykbroker.quorum.snapshots import Snapshots
from pykbroker.quorum.snapshotter import Snapshotter
from pykbroker.quorum.voters import only_voter, quorum_records
from pykbroker.storage.files.small_files import read_whole
from pykbroker.world.disk import Disk
from pykbroker.world.off_loop import OffLoop
from pykbroker.world.turns import Turns
from wire.declare import NIL
from wire.errors import DecodeError
from wire.stored.control import VotersRecord
from wire.stored.metadata_marks import AbortTransactionRecord
from wire.stored.metadata_settings import FeatureLevelRecord

logger = logging.getLogger(__name__)


async def start_controller(
    journal: ReplicatedJournal,
    disk: Disk,
    settings: ControllerSettings,
    configs: ControllerConfigs,
    randomness: Randomness,
    wall_ms: Callable[[], int],
    off_loop: OffLoop,
    rules: LogRules,
    turns: Turns,
    directory_id: bytes = NIL,
    endpoints: Sequence[Endpoint] = (),
) -> Controller:
    """Replay the metadata log, begin a new epoch, and return the controller. All that was written is durable.

    `directory_id` and `endpoints` are those of this voter, for a log that records its voters. Raise StartError if the
    log is damaged, or belongs to another cluster or quorum.
    """
    snapshots = Snapshots(disk, off_loop)
    found = await recovered(journal, disk, snapshots, partial(ControllerMachine, settings, configs, randomness))
    machine = found.machine
    check_levels({**machine.features, KRAFT_FEATURE: found.kraft_version})
    for name, level in unsupported(machine.features).items():
        logger.warning(
            "the cluster has feature %s at level %d, which this broker does not support: the feature is ignored",
            name,
            level,
        )
    formatted = await _formatted(disk)
    state = await _next_state(disk, settings, found)
    driver = Driver(journal, machine, disk, state, time_ms=found.time_ms, log_bytes=found.log_bytes)
    changed = _changed_quorum(disk, found, settings.node_id, directory_id, endpoints)
    await driver.begin_epoch(wall_ms(), changed)
    # Brokers apply no record of a metadata transaction, nor a later one, before its end (KIP-868).
    if machine.in_transaction:
        _write(driver, [AbortTransactionRecord(reason="the controller that began it is gone")], wall_ms())
    # The log is new, or a crash at the first start came before these records were durable.
    if METADATA_FEATURE not in machine.features:
        _write(driver, bootstrap_records(formatted, settings.min_insync_replicas), wall_ms())
    await driver.commit()
    snapshots.remove_parts()
    images = Images(Delta.since_nothing(driver.freeze().image))
    quorum = changed or tuple(found.quorum.values())
    snapshotter = Snapshotter(driver, images, snapshots, rules, off_loop, wall_ms, quorum)
    fetches = MetadataFetches(driver.epoch, journal, images, snapshots, driver.progress, wall_ms)
    return Controller(
        driver, images, wall_ms, snapshotter, turns, fetches, RecordedVoter(found.kraft_version, directory_id)
    )


def _changed_quorum(
    disk: Disk, found: Recovered, node_id: int, directory_id: bytes, endpoints: Sequence[Endpoint]
) -> tuple[QuorumRecord, ...]:
    """Return the records about the quorum that the log lacks, or whose entry of this voter is out of date."""
    if not found.kraft_version or directory_id == NIL:
        return ()
    recorded = found.quorum[VotersRecord]
    assert isinstance(recorded, VotersRecord)
    (voter,) = recorded.voters
    if voter.voter_directory_id != directory_id:
        raise StartError(
            f"the voter {node_id} is recorded with directory.id {id_text(voter.voter_directory_id)}, and"
            f" {disk.path}/meta.properties has {id_text(directory_id)}: restore meta.properties"
        )
    current = only_voter(node_id, directory_id, endpoints)
    if found.quorum_is_logged and recorded == current:
        return ()
    return quorum_records(current)


async def recovered(
    journal: MetadataJournal,
    disk: Disk,
    snapshots: Snapshots,
    new_machine: Callable[[MetadataImage], ControllerMachine],
) -> Recovered:
    """Read the newest snapshot and the log after it. Raise StartError if one of them is damaged."""
    try:
        return await recover(journal, snapshots, new_machine)
    except (DecodeError, DamagedMetadata) as error:
        raise StartError(
            f"{disk.path}/{METADATA_DIRECTORY} is damaged: {error}. Restore it from a copy; nothing was changed"
        ) from error


def _write(driver: Driver, records: Sequence[Record], now_ms: int) -> None:
    for batch, held in finish(driver.frame(records, now_ms)):
        for entry in driver.entries(held, driver.append(batch, now_ms)):
            driver.machine.replay(entry)


async def _next_state(disk: Disk, settings: ControllerSettings, found: Recovered) -> QuorumState:
    """Return the quorum state of a new epoch that this node leads."""
    state = await read_state(disk) or QuorumState(version=int(bool(found.voters)))
    _check(disk, settings, state, found)
    return msgspec.structs.replace(
        state,
        leader_id=settings.node_id,
        # The operator may have removed a damaged file (`read_state`), and no epoch may begin twice.
        leader_epoch=max(state.leader_epoch, found.epoch) + 1,
        voters=(settings.node_id,),
        cluster_id=settings.cluster_id,
    )


def _check(disk: Disk, settings: ControllerSettings, state: QuorumState, found: Recovered) -> None:
    require_cluster(state, settings.cluster_id, disk)
    voters = found.voters or set(state.voters)
    if voters - {settings.node_id}:
        raise StartError(
            f"the metadata in {disk.path} belongs to a quorum of the voters {sorted(voters)}, but node "
            f"{settings.node_id} can only run alone: set node.id to the voter if there is one, or name "
            "another directory in log.dirs"
        )


async def _formatted(disk: Disk) -> list[Record]:
    """Return the records of `bootstrap.checkpoint`.

    Without the file, return the records that Kafka would write to it.
    """
    if not disk.exists(BOOTSTRAP_FILE):
        return [*feature_records(NEW_CLUSTER)]
    try:
        records = read_bootstrap(await read_whole(disk, BOOTSTRAP_FILE))
    except DecodeError as error:
        raise StartError(
            f"{disk.path}/{BOOTSTRAP_FILE} is damaged ({error}): remove it, and the cluster begins with "
            "the features of this version"
        ) from error
    check_levels({record.name: record.feature_level for record in records if isinstance(record, FeatureLevelRecord)})
    return records
