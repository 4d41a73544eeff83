"""The repair of a replica that cannot be served: it leaves the ISR, is fetched anew from its leader, and joins again.

1. The broker reports the replica's log directory as lost (KIP-858). The controller then moves the leadership, takes the
   replica out of the ISR, and elects it no more, because a replica in a directory that is not online cannot lead.
2. Nothing is fetched before the committed ISR lacks the replica and another broker leads. The last replica of an ISR is
   thus never replaced: its partition has no leader, which is visible.
3. A new replica may join the ISR, but cannot be elected before its directory is reported. It is reported once the
   replica has all records up to a high watermark that its leader sent while the replica was in the committed ISR. A
   late fetch of the damaged replica may have put the new one into the ISR too early; the high watermark has then
   stopped.
4. The only replica of a partition is never replaced.
"""

from __future__ import annotations

from enum import Enum, auto

from pykbroker.core.metadata.image import NO_LEADER, PartitionImage


class RepairPhase(Enum):
    """The phase of a repair."""

    DAMAGED = auto()
    """The replica cannot be served, and no other one has been begun."""
    FETCHING = auto()
    """An empty log has replaced the damaged one, and is filled from the leader."""
    COMPLETE = auto()
    """The new log has all committed records."""


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
    VERIFY = auto()
    """Compare the log with the leader's high watermark."""
    REPORT = auto()
    """Report the directory of the new log."""
    END = auto()
    """Remove the damaged log: the new replica is in the ISR and may be elected."""


def next_step(
    phase: RepairPhase, placed: PartitionImage, node_id: int, *, is_online: bool, is_reported: bool
) -> RepairStep:
    """Return the next step of the repair of broker `node_id`'s replica under this metadata.

    `is_online` is true if the directory that the metadata has for the replica is online, so that the replica may be
    elected. `is_reported` is true if that is the directory of the new log.
    """
    in_isr = node_id in placed.isr
    if phase is RepairPhase.DAMAGED:
        return _leave_or_begin(placed, node_id, is_online=is_online, in_isr=in_isr)
    if placed.leader == node_id:
        return RepairStep.END
    if not in_isr:
        return RepairStep.LEAVE if is_online else RepairStep.WAIT
    if phase is RepairPhase.FETCHING:
        return RepairStep.VERIFY
    return RepairStep.END if is_reported else RepairStep.REPORT


def _leave_or_begin(placed: PartitionImage, node_id: int, *, is_online: bool, in_isr: bool) -> RepairStep:
    if len(placed.replicas) == 1:
        return RepairStep.STAY_OFFLINE
    if is_online:
        return RepairStep.LEAVE
    if in_isr or placed.leader in (NO_LEADER, node_id):
        return RepairStep.WAIT
    return RepairStep.BEGIN


def phase_after(phase: RepairPhase, step: RepairStep) -> RepairPhase:
    """Return the phase after a step was found. A complete replica that has left the ISR again is incomplete."""
    if phase is RepairPhase.COMPLETE and step in (RepairStep.LEAVE, RepairStep.WAIT):
        return RepairPhase.FETCHING
    return phase


class Repair:
    """The state of a replica's repair.

    `is_last` is true if the partition had no other leader meanwhile, so that others may lack records of the damaged
    log. `since` is the number of the newest fetch when the replica was found in the ISR, or None.
    """

    __slots__ = ("is_last", "phase", "since")

    def __init__(self, phase: RepairPhase = RepairPhase.DAMAGED) -> None:
        self.phase, self.is_last = phase, False
        self.since: int | None = None

    def step(self, placed: PartitionImage, node_id: int, *, is_online: bool, is_reported: bool) -> RepairStep:
        """Return the next step as `next_step` does, and note what the metadata says."""
        step = next_step(self.phase, placed, node_id, is_online=is_online, is_reported=is_reported)
        if self.phase is RepairPhase.DAMAGED:
            self.is_last |= len(placed.replicas) > 1 and placed.leader == NO_LEADER
        self.phase = phase_after(self.phase, step)
        if step is not RepairStep.VERIFY:
            self.since = None
        return step
