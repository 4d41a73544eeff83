"""Placement of the replicas of new partitions, and the records of these partitions.

1. The replicas of a partition are in different racks as far as there are enough. Racks take turns, from a random one
   on, and so do the brokers of a rack. The next partition begins with the next rack. Kafka's brokers of a rack take
   turns with every partition, so that some never lead if there are as many racks as brokers in a rack.
2. The first replica, which is the preferred leader, is on an unfenced broker. Fenced brokers of a rack are chosen after
   its unfenced ones.
3. Brokers in controlled shutdown, and brokers whose directories are all cordoned, get no replica.
4. Once there are as many partitions as unfenced brokers, racks and brokers are shuffled, so that assignments do not
   repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, cycle
from typing import TypeVar

from pykbroker.core.errors import ApiError
from pykbroker.core.ids import Randomness
from pykbroker.core.metadata.context import ControllerContext
from pykbroker.core.metadata.image import BrokerImage
from pykbroker.core.steps import Steps
from wire.error_codes import ErrorCode
from wire.stored.metadata_topics import PartitionRecord

T = TypeVar("T")


def place(context: ControllerContext, partitions: int, replicas: int) -> Steps[list[list[int]]]:
    """Return the replicas of each new partition.

    Raise ApiError INVALID_REPLICATION_FACTOR if there are too few brokers.
    """
    brokers = [broker for broker in context.draft.brokers.values() if _takes_replicas(broker)]
    brokers.sort(key=lambda broker: broker.id)
    active = sum(broker.active for broker in brokers)
    if fault := _fault(replicas, len(brokers), active):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"Unable to replicate the partition {replicas} time(s): {fault}"
        )
    placer = ReplicaPlacer(brokers, context.randomness)
    placed = []
    for _ in range(partitions):
        placed.append(placer.place(replicas))
        yield
    return placed


def _takes_replicas(broker: BrokerImage) -> bool:
    return (broker.active or broker.fenced) and broker.accepts_replicas


def _fault(replicas: int, brokers: int, active: int) -> str | None:
    if active == 0:
        return "All brokers are currently fenced."
    if replicas > brokers:
        return (
            f"The target replication factor of {replicas} cannot be reached because only {brokers} broker(s) "
            "are registered or some brokers have all their log directories cordoned."
        )
    return None


class _Rack:
    """The brokers of a rack. They take turns as leaders, and apart from that as followers."""

    def __init__(self, brokers: Sequence[BrokerImage], randomness: Randomness) -> None:
        self.unfenced = [broker.id for broker in brokers if broker.active]
        self._fenced = [broker.id for broker in brokers if not broker.active]
        self._randomness = randomness
        self._leads, self._follows = _draw(randomness, 1 << 31), _draw(randomness, 1 << 31)
        self._chosen: list[int] = []

    def begin(self) -> None:
        """Begin the next partition."""
        self._chosen = []

    def lead(self) -> int:
        """Return the unfenced broker whose turn it is to lead."""
        broker_id = self.unfenced[self._leads % len(self.unfenced)]
        self._leads += 1
        self._chosen.append(broker_id)
        return broker_id

    def follow(self) -> int | None:
        """Return the broker whose turn it is to follow, or None if the partition has all brokers of the rack."""
        for ring in (self.unfenced, self._fenced):
            for skipped in range(len(ring)):
                broker_id = ring[(self._follows + skipped) % len(ring)]
                if broker_id not in self._chosen:
                    self._follows += skipped + 1
                    self._chosen.append(broker_id)
                    return broker_id
        return None

    def shuffle(self) -> None:
        _shuffle(self.unfenced, self._randomness)
        _shuffle(self._fenced, self._randomness)


class ReplicaPlacer:
    """The racks of the brokers that may get replicas. `place` is called once for each new partition."""

    def __init__(self, brokers: Sequence[BrokerImage], randomness: Randomness) -> None:
        self._randomness = randomness
        names = sorted({broker.rack for broker in brokers}, key=lambda rack: (rack is not None, rack or ""))
        self._racks = [_Rack([broker for broker in brokers if broker.rack == name], randomness) for name in names]
        self._first = _draw(randomness, len(self._racks))
        self._unfenced = sum(len(rack.unfenced) for rack in self._racks)
        self._placed = 0

    def place(self, replicas: int) -> list[int]:
        """Return the replicas of the next partition. There are at least so many brokers, one of them unfenced."""
        if self._unfenced > 1 and self._placed == self._unfenced:
            _shuffle(self._racks, self._randomness)
            for rack in self._racks:
                rack.shuffle()
            self._placed = 0
        for rack in self._racks:
            rack.begin()
        racks = self._racks[self._first :] + self._racks[: self._first]
        leading = next(rack for rack in racks if rack.unfenced)
        chosen = [leading.lead()]
        turns = chain((rack for rack in racks if rack is not leading), cycle(racks))
        while len(chosen) < replicas:
            if (broker_id := next(turns).follow()) is not None:
                chosen.append(broker_id)
        self._first, self._placed = (self._first + 1) % len(self._racks), self._placed + 1
        return chosen


def _draw(randomness: Randomness, bound: int) -> int:
    return int.from_bytes(randomness.randbytes(4), "big") % bound


def _shuffle(things: list[T], randomness: Randomness) -> None:
    for last in range(len(things) - 1, 0, -1):
        other = _draw(randomness, last + 1)
        things[last], things[other] = things[other], things[last]


def check_assignment(context: ControllerContext, index: int, replicas: Sequence[int], expected: int | None) -> None:
    """Raise ApiError INVALID_REPLICA_ASSIGNMENT for an invalid manual assignment of `expected` replicas."""
    check_replicas(context, replicas, expected)
    if not any(map(context.active, replicas)):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "All brokers specified in the manual partition assignment for "
            f"partition {index} are fenced or in controlled shutdown.",
        )


def check_replicas(context: ControllerContext, replicas: Sequence[int], expected: int | None) -> None:
    """Check a manual assignment like `check_assignment`, but accept one whose brokers are all fenced."""
    if fault := _replicas_fault(context, replicas, expected):
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)


def _replicas_fault(context: ControllerContext, replicas: Sequence[int], expected: int | None) -> str | None:
    if not replicas:
        return "The manual partition assignment includes an empty replica list."
    for broker_id in sorted(replicas):
        if broker_id not in context.draft.brokers:
            return f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
        if replicas.count(broker_id) > 1:
            return f"The manual partition assignment includes the broker {broker_id} more than once."
    if expected is not None and len(replicas) != expected:
        return (
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is "
            f"not consistent with previous partitions, which have {expected} replica(s)."
        )
    return None


def partition_records(
    context: ControllerContext, topic_id: bytes, first: int, assignment: Sequence[Sequence[int]]
) -> Steps[list[PartitionRecord]]:
    """Return one record for each new partition, numbered from `first`.

    The first replica that may lead is the leader.
    """
    records = []
    default_directories = {broker_id: broker.default_directory for broker_id, broker in context.draft.brokers.items()}
    for index, replicas in enumerate(assignment, first):
        isr = [replica for replica in replicas if context.active(replica)]
        records.append(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=list(replicas),
                isr=isr,
                leader=isr[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[default_directories[replica] for replica in replicas],
            )
        )
        yield
    return records
