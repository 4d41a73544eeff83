"""`quorum-state`: the epoch and the leader that this voter last knew of, as JSON beside the metadata log.

Version 0 lists the voters, for a quorum that the configuration names; version 1 is that of a quorum whose voters stand
in the log. A directory keeps the version that it was formatted with. Source: QuorumStateData, KIP-853.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from pykbroker.core.errors import StartError
from pykbroker.core.metadata.ids import id_text
from wire.declare import NIL

NOBODY = -1


class QuorumState(msgspec.Struct, frozen=True):
    """Cluster id and voters are known in version 0 alone. Kafka leaves the cluster id empty and does not read it."""

    leader_id: int = NOBODY
    leader_epoch: int = 0
    voters: tuple[int, ...] = ()
    cluster_id: str = ""
    version: int = 0

    def to_text(self) -> str:
        """The file as Kafka writes it, without a newline."""
        if self.version:
            fields: dict[str, Any] = {"leaderId": self.leader_id, "leaderEpoch": self.leader_epoch, "votedId": NOBODY,
                                      "votedDirectoryId": id_text(NIL)}
        else:
            fields = {"clusterId": self.cluster_id, "leaderId": self.leader_id, "leaderEpoch": self.leader_epoch,
                      "votedId": NOBODY, "appliedOffset": 0,
                      "currentVoters": [{"voterId": voter} for voter in self.voters]}
        return json.dumps({**fields, "data_version": self.version}, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> QuorumState:
        """`StartError` for what is no such file."""
        try:
            fields = json.loads(text)
            return cls(fields["leaderId"], fields["leaderEpoch"],
                       tuple(voter["voterId"] for voter in fields.get("currentVoters") or ()),
                       fields.get("clusterId", ""), fields["data_version"])
        except (ValueError, LookupError, TypeError) as error:
            raise StartError(f"quorum-state is damaged ({error!r}): remove it, and the epoch is taken from the log") \
                from error
