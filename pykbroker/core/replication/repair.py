"""The repair of a replica that cannot be served: it leaves the ISR, is fetched anew from its leader, and joins again.

1. The broker reports the replica's log directory as lost (KIP-858). The controller then moves the leadership, takes the
   replica out of the ISR, and elects it no more, because a replica in a directory that is not online cannot lead.
2. Nothing is fetched before the committed ISR lacks the replica and another broker leads. The last replica of an ISR is
   thus never replaced: its partition has no leader, which is visible.
3. A late fetch of the damaged replica could put the new, empty one into the ISR. The leader refuses it if it is of an
   older leader epoch or broker epoch (KIP-320, KIP-903), so our controller begins a leader epoch for a lost replica.
4. The new replica's directory is reported before its first fetch. The replica is thus in the ISR only when it may be
   elected: the leader may fail at once, and nothing is lost.
5. Under a controller of Kafka's, the leader epoch may be the one in which the damaged replica was fetched. The new
   replica is then fetched first, and may join the ISR too early; the high watermark has then stopped. Its directory is
   reported once it has all records up to a high watermark that its leader sent while it was in the committed ISR.
6. The only replica of a partition is never replaced.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from pykbroker.core.metadata.image import PartitionImage
from wire.sentinels import NO_LEADER


class RepairPhase(Enum):
    """The phase of a repair."""

    DAMAGED = auto()
    """The replica cannot be served, and no other one has been begun."""
    BEGUN = auto()
    """A new log has replaced the damaged one. It is not fetched since this broker has started."""
    FETCHING = auto()
    """The new log is fetched from the leader."""
    COMPLETE = auto()
    """The new log has all committed records, and its directory is not reported yet."""


class RepairStep(Enum):
    """A step of a repair."""

    STAY_OFFLINE = auto()
    """No other replica exists, and nothing is done."""
    LEAVE = auto()
    """Report the directory of the replica as lost."""
    WAIT = auto()
    """Wait for new metadata."""
    BEGIN = auto()
    """Set the damaged log aside, and begin an empty one."""
    FETCH = auto()
    """Fetch the new log from the leader."""
    VERIFY = auto()
    """Compare the log with the leader's high watermark."""
    REPORT = auto()
    """Report the directory of the new log."""
    END = auto()
    """Remove the damaged log: the new replica is in the ISR and may be elected."""


class ReplicaStanding(NamedTuple):
    """The metadata of a replica: whether it is in the ISR, and the state of its log directory.

    `is_online` is true if the directory that the metadata has for the replica is online, so that the replica may be
    elected. `is_reported` is true if that is the directory of the present log, and `is_lost` if it is reported as lost.
    """

    in_isr: bool
    is_online: bool
    is_reported: bool
    is_lost: bool = False


class Repair:
    """The state of a replica's repair.

    `is_last` is true if the partition had no other leader meanwhile, so that others may lack records of the damaged
    log. `is_fenced` is true if leader and controller refuse every late fetch of the damaged log. `since` is the number
    of the newest fetch when the replica was found in the ISR, or None.
    """

    __slots__ = ("is_fenced", "is_last", "phase", "since")

    def __init__(self, phase: RepairPhase = RepairPhase.DAMAGED) -> None:
        self.phase, self.is_last, self.is_fenced = phase, False, False
        self.since: int | None = None

    @property
    def is_fetched(self) -> bool:
        """Whether the replica has a log that may be fetched from the leader."""
        return self.phase in (RepairPhase.FETCHING, RepairPhase.COMPLETE)

    def step(self, placed: PartitionImage, node_id: int, standing: ReplicaStanding, fetched_epoch: int) -> RepairStep:
        """Return the next step of the repair of broker `node_id`'s replica under this metadata, and note its effect.

        `fetched_epoch` is the last leader epoch in which this broker may have fetched the partition since its start.
        Earlier fetches had another broker epoch.
        """
        match self.phase:
            case RepairPhase.DAMAGED:
                self.is_last |= len(placed.replicas) > 1 and placed.leader == NO_LEADER
                return self._leave_or_begin(placed, node_id, standing, fetched_epoch)
            case RepairPhase.BEGUN:
                step = self._report_or_fetch(placed, node_id, standing, fetched_epoch)
            case _:
                step = self._join(standing) if placed.leader != node_id else RepairStep.END
        if step is RepairStep.FETCH:
            self.phase = RepairPhase.FETCHING
        # The replica has left the ISR since, so that only a later high watermark proves that it is complete: see 5.
        if self.phase is RepairPhase.COMPLETE and not standing.in_isr:
            self.phase = RepairPhase.FETCHING
        if step is not RepairStep.VERIFY:
            self.since = None
        return step

    def _leave_or_begin(
        self, placed: PartitionImage, node_id: int, standing: ReplicaStanding, fetched_epoch: int
    ) -> RepairStep:
        if len(placed.replicas) == 1:
            return RepairStep.STAY_OFFLINE
        if standing.is_online:
            return RepairStep.LEAVE
        if standing.in_isr or placed.leader in (NO_LEADER, node_id):
            return RepairStep.WAIT
        # A late fetch of the damaged log would otherwise count as one of the new log: see 3.
        is_fenced = placed.leader_epoch > fetched_epoch
        return RepairStep.BEGIN if is_fenced or standing.is_lost else RepairStep.LEAVE

    def _report_or_fetch(
        self, placed: PartitionImage, node_id: int, standing: ReplicaStanding, fetched_epoch: int
    ) -> RepairStep:
        if placed.leader == node_id:
            return RepairStep.END
        self.is_fenced = not standing.in_isr and placed.leader_epoch > fetched_epoch
        return RepairStep.REPORT if self.is_fenced and not standing.is_reported else RepairStep.FETCH

    def _join(self, standing: ReplicaStanding) -> RepairStep:
        # Under a controller of ours, the directory is reported before the first fetch: see 4. All else is rule 5.
        if self.is_fenced and standing.is_reported:
            return RepairStep.END if standing.in_isr else RepairStep.WAIT
        if not standing.in_isr:
            return RepairStep.LEAVE if standing.is_online else RepairStep.WAIT
        if self.phase is RepairPhase.FETCHING:
            return RepairStep.VERIFY
        return RepairStep.END if standing.is_reported else RepairStep.REPORT
