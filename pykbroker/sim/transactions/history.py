"""The actions of transactional producers and the responses they got. Times in seconds; inf for a missing response."""

from __future__ import annotations

from enum import Enum
from math import inf

import msgspec

from pykbroker.sim.groups.history import Commit, GroupHistory
from pykbroker.sim.history import History, Place


class Decision(Enum):
    """VOID: its producer has never asked for a commit, or was refused the first time it did."""

    VOID = "void"
    UNDECIDED = "undecided"
    COMMITTED = "committed"


class SentTransaction(msgspec.Struct):
    """A transaction with its `values` as sent, acknowledged or not. A commit is sent only when all are."""

    name: str
    values: list[tuple[Place, bytes]] = []
    offsets: list[Commit] = []
    asked_s: float = inf
    decision: Decision = Decision.VOID


class Deed(msgspec.Struct):
    """A request of an epoch that succeeded. `began_s`: when it was sent."""

    transactional_id: str
    producer_id: int
    epoch: int
    began_s: float
    what: str


class Takeover(msgspec.Struct):
    """The time at which a producer received its epoch, which fences all older ones."""

    transactional_id: str
    producer_id: int
    epoch: int
    received_s: float


class TransactionHistory:
    """The history of one simulation. `logs`: each batch, as uncommitted readers saw it; `polls`: committed reads."""

    def __init__(self, oddities: list[str]) -> None:
        self.oddities = oddities
        self.logs, self.committed, self.groups = History(oddities), History(oddities), GroupHistory(oddities)
        self.transactions: list[SentTransaction] = []
        self.deeds: list[Deed] = []
        self.takeovers: list[Takeover] = []
