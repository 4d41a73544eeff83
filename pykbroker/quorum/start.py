"""How a controller starts: the log replayed, a new epoch begun, and the first records of a new cluster written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from pykbroker.core.errors import StartError
from pykbroker.core.metadata.bootstrap import bootstrap_records, feature_records
from pykbroker.core.metadata.context import METADATA_FEATURE, ControllerSettings, Record, TopicConfigs
from pykbroker.core.metadata.features import NEW_CLUSTER, check_levels
from pykbroker.core.metadata.ids import UNASSIGNED, Randomness
from pykbroker.core.metadata.machine import ControllerMachine
from pykbroker.quorum.bootstrap_file import BOOTSTRAP_FILE, read_bootstrap
from pykbroker.quorum.controller import Controller
from pykbroker.quorum.driver import BATCH_BYTES_MAX, Driver
from pykbroker.quorum.images import Images
from pykbroker.quorum.journal import Journal
from pykbroker.quorum.quorum_state import QuorumState
from pykbroker.quorum.recovery import Recovered, recover
from pykbroker.storage.config import LogConfig
from pykbroker.storage.small_files import read_whole, replace_durably
from pykbroker.world.disk import Disk
from wire.stored.metadata_marks import AbortTransactionRecord
from wire.stored.metadata_settings import FeatureLevelRecord

METADATA_DIRECTORY = "__cluster_metadata-0"
METADATA_TOPIC_ID = UNASSIGNED
METADATA_LOG_CONFIG = LogConfig(max_message_bytes=BATCH_BYTES_MAX, retention_ms=-1)
"""Nothing of the metadata log is deleted by its age: only a snapshot makes records superfluous."""

QUORUM_STATE = "quorum-state"


async def start_controller(journal: Journal, disk: Disk, settings: ControllerSettings, configs: TopicConfigs,
                           randomness: Randomness, wall_ms: Callable[[], int]) -> Controller:
    """Everything that was read or written here is on disk when this returns. `StartError` for the operator."""
    machine = ControllerMachine(settings, configs, randomness)
    found = await recover(journal, disk, METADATA_DIRECTORY, machine)
    check_levels(machine.features)
    formatted = await _formatted(disk)
    driver = Driver(journal, machine, settings.node_id, await _take_office(disk, settings, found))
    driver.begin_epoch(wall_ms())
    if machine.in_transaction:
        _write(driver, [AbortTransactionRecord(reason="the controller that began it is gone")], wall_ms())
    if METADATA_FEATURE not in machine.features:
        _write(driver, bootstrap_records(formatted, settings.min_insync_replicas), wall_ms())
    await driver.commit()
    return Controller(driver, Images(machine.freeze(driver.epoch)), wall_ms)


def _write(driver: Driver, records: Sequence[Record], now_ms: int) -> None:
    driver.write(driver.batches(records, now_ms), records, now_ms)


async def _take_office(disk: Disk, settings: ControllerSettings, found: Recovered) -> int:
    """Write down a new epoch, of which this node is the leader, before the log hears of it."""
    path = f"{METADATA_DIRECTORY}/{QUORUM_STATE}"
    state = QuorumState(version=int(bool(found.voters)))
    if disk.exists(path):
        state = QuorumState.from_text((await read_whole(disk, path)).decode())
    _check(disk, settings, state, found)
    epoch = max(state.leader_epoch, found.epoch) + 1
    state = msgspec.structs.replace(state, leader_id=settings.node_id, leader_epoch=epoch,
                                    voters=(settings.node_id,), cluster_id=settings.cluster_id)
    await replace_durably(disk, path, state.to_text().encode())
    return epoch


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
