"""The file `quorum-state`, which records the last epoch and leader of this voter, as JSON beside the metadata log.

Version 0 lists the voters that the config names. Version 1 belongs to a quorum whose voters are recorded in the
metadata log. A directory keeps the version that it was formatted with. Source: QuorumStateData, KIP-853.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from pykbroker.core.errors import StartError
from pykbroker.core.ids import id_text
from pykbroker.quorum.journal import METADATA_DIRECTORY
from pykbroker.storage.files.small_files import read_whole, replace_durably
from pykbroker.world.disk import Disk
from wire.declare import NIL
from wire.errors import DecodeError
from wire.sentinels import NO_LEADER, NO_NODE

QUORUM_STATE = f"{METADATA_DIRECTORY}/quorum-state"


class QuorumState(msgspec.Struct, frozen=True):
    """The content of the file: the leader epoch and its leader; in version 0 also the voters.

    Kafka leaves `cluster_id` and `applied_offset` empty and does not read them. Version 1 no longer has these fields,
    but Kafka ignores unknown ones. This broker uses them: the metadata belongs to that cluster, and the log below
    `applied_offset` was synced, so damage there is not a torn tail.
    """

    leader_id: int = NO_LEADER
    leader_epoch: int = 0
    voters: tuple[int, ...] = ()
    cluster_id: str = ""
    applied_offset: int = 0
    version: int = 0

    def to_text(self) -> str:
        """Return the file's content as Kafka writes it, without a final newline."""
        if self.version:
            fields: dict[str, Any] = {
                "leaderId": self.leader_id,
                "leaderEpoch": self.leader_epoch,
                "votedId": NO_NODE,
                "votedDirectoryId": id_text(NIL),
            }
            if self.cluster_id:
                fields |= {"clusterId": self.cluster_id, "appliedOffset": self.applied_offset}
        else:
            fields = {
                "clusterId": self.cluster_id,
                "leaderId": self.leader_id,
                "leaderEpoch": self.leader_epoch,
                "votedId": NO_NODE,
                "appliedOffset": self.applied_offset,
                "currentVoters": [{"voterId": voter} for voter in self.voters],
            }
        return json.dumps({**fields, "data_version": self.version}, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> QuorumState:
        """Parse the file's content. Raise DecodeError if it is damaged."""
        try:
            fields = json.loads(text)
            return cls(
                fields["leaderId"],
                fields["leaderEpoch"],
                tuple(voter["voterId"] for voter in fields.get("currentVoters") or ()),
                fields.get("clusterId", ""),
                fields.get("appliedOffset", 0),
                fields["data_version"],
            )
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise DecodeError(f"not the content of a {QUORUM_STATE} file: {error!r}") from error


async def read_state(disk: Disk) -> QuorumState | None:
    """Return the content of the file, or None before the first start. Raise StartError if the file is damaged."""
    if not disk.exists(QUORUM_STATE):
        return None
    try:
        return QuorumState.from_text((await read_whole(disk, QUORUM_STATE)).decode(errors="replace"))
    except DecodeError as error:
        raise StartError(
            f"{disk.path}/{QUORUM_STATE} is damaged ({error}): remove it, and the epoch is taken from the log"
        ) from error


async def write_state(disk: Disk, state: QuorumState) -> None:
    """Write the file durably."""
    await replace_durably(disk, QUORUM_STATE, state.to_text().encode())


def require_cluster(state: QuorumState, cluster_id: str, disk: Disk) -> None:
    """Raise StartError if the metadata in the directory belongs to another cluster."""
    if state.cluster_id not in ("", cluster_id):
        raise StartError(
            f"the metadata in {disk.path} belongs to cluster {state.cluster_id}, and meta.properties says"
            f" {cluster_id}: put the cluster.id back, or give this directory its own meta.properties"
        )
