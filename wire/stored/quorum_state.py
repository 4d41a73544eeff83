"""The content of the file `quorum-state`, which is JSON.

QuorumStateData has versions 0-1, all flexible:
- Version 1 adds `voted_directory_id` and removes `cluster_id`, `applied_offset`, and `current_voters`.
"""

from typing import Annotated, ClassVar

from wire.declare import NIL, UUID, Int32, Int64, Stored, StoredPart, V


class Voter(StoredPart):
    voter_id: Annotated[Int32, V("0")] = 0


class QuorumStateData(Stored):
    """The election state of a controller."""

    versions: ClassVar = "0-1"
    flexible: ClassVar = "0+"

    cluster_id: Annotated[str, V("0")] = ""
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    voted_id: Int32 = -1
    voted_directory_id: Annotated[UUID, V("1+")] = NIL
    applied_offset: Annotated[Int64, V("0")] = 0
    current_voters: Annotated[list[Voter] | None, V("0", nullable="0")] = []
