"""The history of groups: the actions of their members, and the responses.

Times are in seconds, inf for a missing response.
"""

from __future__ import annotations

from math import inf

import msgspec

from pykbroker.sim.history import Place, SendOutcome
from wire.sentinels import NO_GENERATION_ID


class Commit(msgspec.Struct):
    """One partition's offset, with a `mark` that no other commit has.

    `generation` is NO_GENERATION_ID for a commit without a membership. If `in_transaction` is true, the commit belongs
    to a transaction. OffsetFetch may return it only from `not_before_s` on, when its producer requests the end of the
    transaction.
    """

    group: str
    place: Place
    offset: int
    mark: str
    began_s: float
    ended_s: float = inf
    outcome: SendOutcome = SendOutcome.UNKNOWN
    generation: int = NO_GENERATION_ID
    in_transaction: bool = False
    not_before_s: float = -inf


class FetchedOffset(msgspec.Struct):
    """The response of OffsetFetch for one partition. It has offset -1 and no mark if no offset is committed."""

    reader: str
    group: str
    place: Place
    offset: int
    mark: str
    began_s: float
    ended_s: float


class Assigned(msgspec.Struct):
    """The assignment that a member received in SyncGroup."""

    group: str
    generation: int
    member: str
    places: tuple[Place, ...]
    received_s: float


class Lease(msgspec.Struct):
    """A period in which a member of a consumer group may believe that it owns a partition."""

    group: str
    member: str
    place: Place
    from_s: float
    until_s: float


class GroupHistory:
    """The history of the groups of one simulation."""

    def __init__(self, unexpected: list[str]) -> None:
        self.unexpected = unexpected
        self.commits: list[Commit] = []
        self.fetched: list[FetchedOffset] = []
        self.assigned: list[Assigned] = []
        self.leases: list[Lease] = []
