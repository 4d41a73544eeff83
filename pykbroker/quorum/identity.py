"""The identity of this node: the ids of cluster, node and directories, from `meta.properties` of each log directory.

An empty directory is formatted with the cluster id of the other directories. Directories that contradict each other are
refused with an error that says what to do: a broker that served the wrong directory would seem to have lost its data.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from pykbroker.core.errors import StartError
from pykbroker.core.ids import Randomness, id_text, is_directory, new_id
from pykbroker.core.metadata.bootstrap import feature_records
from pykbroker.core.metadata.features import NEW_CLUSTER
from pykbroker.core.metadata.image import Endpoint
from pykbroker.core.metadata.record import Record
from pykbroker.core.raft.fetch_position import BOOTSTRAP_SNAPSHOT
from pykbroker.core.security.own_certificates import FILES as OWN_CERTIFICATES
from pykbroker.quorum.bootstrap_file import BOOTSTRAP_FILE, bootstrap_content
from pykbroker.quorum.journal import METADATA_DIRECTORY
from pykbroker.quorum.snapshot_file import snapshot_name, snapshot_of
from pykbroker.quorum.snapshots import write_snapshot
from pykbroker.quorum.voters import formatted_snapshot, only_voter
from pykbroker.storage.files.checkpoints import CLEANED, RECOVERY_POINTS
from pykbroker.storage.files.meta_properties import NAME as META_PROPERTIES
from pykbroker.storage.files.meta_properties import CorruptMeta, MetaProperties
from pykbroker.storage.files.partition_directory import parse_name
from pykbroker.storage.files.small_files import read_whole, replace_durably
from pykbroker.world.disk import Disk

logger = logging.getLogger(__name__)

HARMLESS = {
    ".lock",
    "lost+found",
    CLEANED,
    f"{CLEANED}.tmp",
    RECOVERY_POINTS,
    f"{RECOVERY_POINTS}.tmp",
    BOOTSTRAP_FILE,
    f"{BOOTSTRAP_FILE}.tmp",
    f"{META_PROPERTIES}.tmp",
    *OWN_CERTIFICATES,
}
"""Files that may be in a directory that counts as empty: an interrupted formatting leaves them, or `--tls auto`."""


class BrokerIdentity(msgspec.Struct, frozen=True):
    """The ids of cluster, node and log directories. `directory_ids` are in the order of the directories."""

    cluster_id: str
    node_id: int
    directory_ids: tuple[bytes, ...]


class Voter(msgspec.Struct, frozen=True):
    """The only voter of a new cluster, with its endpoints for other nodes."""

    endpoints: tuple[Endpoint, ...] = ()


async def find_cluster_id(disks: Sequence[Disk], node_id: int) -> str | None:
    """Return the cluster id that the log directories agree on, or None if all are empty. Raise StartError."""
    return _agree(disks, [await _read(disk) for disk in disks], node_id, None)


async def prepare(
    disks: Sequence[Disk],
    node_id: int,
    randomness: Randomness,
    now_ms: int,
    cluster_id: str | None = None,
    voter: Voter | None = None,
    *,
    is_controller: bool = True,
    first_records: Sequence[Record] = (),
) -> BrokerIdentity:
    """Return the identity that the log directories agree on, and format empty ones.

    The first directory has the metadata log. With `voter`, a new cluster records its voters in that log (kraft.version
    1). A node that is no controller can fetch the metadata again if it is missing. A new cluster begins with
    `first_records`.
    """
    found = [await _read(disk) for disk in disks]
    cluster_id = _agree(disks, found, node_id, cluster_id) or id_text(new_id(randomness))
    if is_controller:
        _check_metadata(disks, found)
    directory_ids = []
    for place, (disk, properties) in enumerate(zip(disks, found, strict=True)):
        if properties is None:
            if any(found):
                logger.warning(
                    "%s is empty and becomes a new log directory of this node: if a disk belongs there, stop"
                    " the broker and mount it",
                    disk.path,
                )
            properties = MetaProperties(cluster_id, node_id, new_id(randomness))
            if place == 0 and is_controller:
                await _format_metadata(disk, properties, now_ms, voter, first_records)
            await replace_durably(disk, META_PROPERTIES, properties.encode(now_ms))
        directory_ids.append(properties.directory_id)
    return BrokerIdentity(cluster_id, node_id, tuple(directory_ids))


async def _read(disk: Disk) -> MetaProperties | None:
    if disk.exists(META_PROPERTIES):
        return _decoded(disk, await read_whole(disk, META_PROPERTIES))
    names = set(disk.names("")) - HARMLESS
    if not _holds_metadata(disk):
        names.discard(METADATA_DIRECTORY)  # an interrupted formatting leaves it
    if names:
        raise StartError(
            f"{disk.path} holds {sorted(names)[0]} but no {META_PROPERTIES}: name an empty directory in log.dirs, "
            "or restore the file"
        )
    return None


def _decoded(disk: Disk, content: bytes) -> MetaProperties:
    try:
        found = MetaProperties.decode(content)
    except CorruptMeta as error:
        raise StartError(
            f"{disk.path}/{META_PROPERTIES} cannot be read ({error}): restore it; this broker needs it "
            "as Kafka 3.7 and later write it"
        ) from error
    if not is_directory(found.directory_id):
        raise StartError(f"{disk.path}/{META_PROPERTIES} has a directory.id that Kafka reserves: restore the file")
    return found


def _agree(
    disks: Sequence[Disk], found: Sequence[MetaProperties | None], node_id: int, cluster_id: str | None
) -> str | None:
    """Return the cluster id that all directories share, or None if no directory has one."""
    ids = set()
    for disk, properties in zip(disks, found, strict=True):
        if properties is not None:
            if properties.directory_id in ids:
                raise StartError(
                    f"{disk.path} has the directory.id of another log directory: remove the copy from log.dirs"
                )
            ids.add(properties.directory_id)
            if properties.node_id != node_id:
                raise StartError(
                    f"{disk.path} belongs to node {properties.node_id}, and this is node {node_id}: "
                    "change node.id or the directory"
                )
            if cluster_id not in (None, properties.cluster_id):
                raise StartError(
                    f"{disk.path} belongs to cluster {properties.cluster_id}, not to {cluster_id}: "
                    "remove this directory from log.dirs, or correct the cluster id"
                )
            cluster_id = properties.cluster_id
    return cluster_id


def _check_metadata(disks: Sequence[Disk], found: Sequence[MetaProperties | None]) -> None:
    """Raise StartError if there are partitions but no metadata: all partitions would be deleted as unknown."""
    if _holds_metadata(disks[0]):
        return
    for disk, properties in zip(disks, found, strict=True):
        if properties is not None and any(map(parse_name, {*disk.names("")} - {METADATA_DIRECTORY})):
            raise StartError(
                f"{disk.path} holds partitions, and {disks[0].path}/{METADATA_DIRECTORY}, which "
                "describes them, is missing or empty: name the directory that has it first in log.dirs, or "
                "restore it"
            )


def _holds_metadata(disk: Disk) -> bool:
    """Whether the directory has a nonempty segment of the metadata log, or a nonempty snapshot."""
    if not disk.exists(METADATA_DIRECTORY):
        return False
    kept = [
        name
        for name in disk.names(METADATA_DIRECTORY)
        if name.endswith(".log") or ((taken := snapshot_of(name)) and taken.offset > 0)
    ]
    return any(disk.size(f"{METADATA_DIRECTORY}/{name}") for name in kept)


async def _format_metadata(
    disk: Disk, properties: MetaProperties, now_ms: int, voter: Voter | None, first_records: Sequence[Record]
) -> None:
    records = [*feature_records(NEW_CLUSTER), *first_records]
    await replace_durably(disk, BOOTSTRAP_FILE, bootstrap_content(records, now_ms))
    if voter is not None:
        if not disk.exists(METADATA_DIRECTORY):
            disk.make_directory(METADATA_DIRECTORY)
            await disk.sync_directory("")
        voters = only_voter(properties.node_id, properties.directory_id, voter.endpoints)
        path = f"{METADATA_DIRECTORY}/{snapshot_name(BOOTSTRAP_SNAPSHOT)}"
        await write_snapshot(disk, path, formatted_snapshot(voters, now_ms))
