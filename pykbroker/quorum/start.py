"""How a controller starts: the log replayed, a new epoch begun, and the first records of a new cluster written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from pykbroker.core.errors import StartError
from pykbroker.core.metadata.bootstrap import bootstrap_records, feature_records
from pykbroker.core.metadata.context import METADATA_FEATURE, ControllerSettings, Record, TopicConfigs
from pykbroker.core.metadata.features import NEW_CLUSTER, check_levels
from pykbroker.core.metadata.ids import Randomness
from pykbroker.core.metadata.machine import ControllerMachine
from pykbroker.quorum.bootstrap_file import BOOTSTRAP_FILE, read_bootstrap
from pykbroker.quorum.controller import Controller
from pykbroker.quorum.driver import Driver
from pykbroker.quorum.images import Images
from pykbroker.quorum.journal import METADATA_DIRECTORY, Journal
from pykbroker.quorum.quorum_state import QuorumState, read_state
from pykbroker.quorum.recovery import Recovered, recover
from pykbroker.storage.small_files import read_whole
from pykbroker.world.disk import Disk
from wire.stored.metadata_marks import AbortTransactionRecord
from wire.stored.metadata_settings import FeatureLevelRecord


async def start_controller(journal: Journal, disk: Disk, settings: ControllerSettings, configs: TopicConfigs,
                           randomness: Randomness, wall_ms: Callable[[], int]) -> Controller:
    """Everything that was read or written here is on disk when this returns. `StartError` for the operator."""
    machine = ControllerMachine(settings, configs, randomness)
    found = await recover(journal, disk, METADATA_DIRECTORY, machine)
    check_levels(machine.features)
    formatted = await _formatted(disk)
    driver = Driver(journal, machine, disk, await _next_state(disk, settings, found))
    await driver.begin_epoch(wall_ms())
    if machine.in_transaction:
        _write(driver, [AbortTransactionRecord(reason="the controller that began it is gone")], wall_ms())
    if METADATA_FEATURE not in machine.features:
        _write(driver, bootstrap_records(formatted, settings.min_insync_replicas), wall_ms())
    await driver.commit()
    return Controller(driver, Images(machine.freeze(driver.epoch)), wall_ms)


def _write(driver: Driver, records: Sequence[Record], now_ms: int) -> None:
    driver.write(driver.batches(records, now_ms), records, now_ms)


async def _next_state(disk: Disk, settings: ControllerSettings, found: Recovered) -> QuorumState:
    """A new epoch, of which this node is the leader."""
    state = await read_state(disk) or QuorumState(version=int(bool(found.voters)))
    _check(disk, settings, state, found)
    return msgspec.structs.replace(
        state, leader_id=settings.node_id, leader_epoch=max(state.leader_epoch, found.epoch) + 1,
        voters=(settings.node_id,), cluster_id=settings.cluster_id)


def _check(disk: Disk, settings: ControllerSettings, state: QuorumState, found: Recovered) -> None:
    if state.cluster_id not in ("", settings.cluster_id):
        raise StartError(
            f"the metadata in {disk.path} belongs to cluster {state.cluster_id}, and meta.properties says "
            f"{settings.cluster_id}: put the cluster.id back, or give this directory its own meta.properties")
    voters = set(found.voters or state.voters)
    if voters - {settings.node_id}:
        raise StartError(f"the metadata in {disk.path} belongs to a quorum of the voters {sorted(voters)}, and this "
                         f"is node {settings.node_id} alone")


async def _formatted(disk: Disk) -> list[Record]:
    """What the cluster was formatted with, else what Kafka would have formatted it with."""
    if not disk.exists(BOOTSTRAP_FILE):
        return [*feature_records(NEW_CLUSTER)]
    records = read_bootstrap(await read_whole(disk, BOOTSTRAP_FILE))
    check_levels({record.name: record.feature_level for record in records if isinstance(record, FeatureLevelRecord)})
    return records
