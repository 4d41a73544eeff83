"""The history of transactions: the actions of their producers, and the responses.

Times are in seconds, inf for a missing response.
"""

from __future__ import annotations

from enum import Enum
from math import inf

import msgspec

from pykbroker.sim.groups.history import Commit, GroupHistory
from pykbroker.sim.history import History, Place


class Decision(Enum):
    """The state of a transaction.

    VOID means that its producer has never requested a commit, or that the first request was refused.
    """

    VOID = "void"
    UNDECIDED = "undecided"
    COMMITTED = "committed"


class SentTransaction(msgspec.Struct):
    """A transaction. `values` has all sent values, acknowledged or not.

    A commit is sent only after all of them are acknowledged.
    """

    name: str
    values: list[tuple[Place, bytes]] = []
    offsets: list[Commit] = []
    asked_s: float = inf
    decision: Decision = Decision.VOID


class Deed(msgspec.Struct):
    """A successful request of a producer epoch. `began_s` is the time at which it was sent."""

    transactional_id: str
    producer_id: int
    epoch: int
    began_s: float
    what: str


class SpoiledTransaction(msgspec.Struct):
    """A transaction of a burst that a leader refused, so that its producer had to abort it. `code` is the error.

    `epochs_before` are the leader epochs of its partitions and coordinators at the begin of the burst's transaction
    before it, which was committed without an error, and `epochs` those at the refusal. None stands for unknown epochs.
    """

    name: str
    code: str
    epochs_before: tuple[int, ...] | None
    epochs: tuple[int, ...] | None


class Takeover(msgspec.Struct):
    """The time at which a producer received its epoch, which fences all older epochs."""

    transactional_id: str
    producer_id: int
    epoch: int
    received_s: float


class TransactionHistory:
    """The history of transactions of one simulation.

    `logs` has each batch as read_uncommitted consumers saw it, and `polls` has the read_committed reads.
    """

    def __init__(self, unexpected: list[str]) -> None:
        self.unexpected = unexpected
        self.logs, self.committed, self.groups = History(unexpected), History(unexpected), GroupHistory(unexpected)
        self.transactions: list[SentTransaction] = []
        self.deeds: list[Deed] = []
        self.takeovers: list[Takeover] = []
        self.spoiled: list[SpoiledTransaction] = []
