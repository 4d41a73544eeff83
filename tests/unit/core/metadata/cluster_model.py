"""A model of brokers that replicate under the controller: their logs, what they know, and what is committed.

The model plays random events, one after the other: writes, fetches, delayed and lost AlterPartition requests, kills
that lose the end of a log, clean stops, restarts of the controller. After each event it checks that every member of an
ISR or ELR has all committed records, which only an election that is marked as unclean may lose.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.image import MetadataImage, PartitionImage
from pykbroker.core.metadata.notices import BrokerGone
from pykbroker.core.metadata.record import Record
from tests.unit.core.metadata.harness import ControllerHarness, topic
from wire.error_codes import ErrorCode
from wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from wire.messages.create_topics import CreateTopicsRequest
from wire.messages.elect_leaders import ElectLeadersRequest
from wire.messages.unregister_broker import UnregisterBrokerRequest
from wire.sentinels import NO_LEADER
from wire.stored.metadata_topics import PartitionChangeRecord

BROKERS = (1, 2, 3, 4)
OWN = 1
COPIES_MAX = 20
MIN_ISR = {"safe": 2, "loose": 1}

Place = tuple[str, int]
Log = list[int]


class Unsafe(AssertionError):
    """The error for a state in which the controller has lost or may lose a committed record."""


@dataclass
class Broker:
    """A broker's process. `views` has the partitions as it knows them, and `logs` its replicas."""

    id: int
    running: bool = False
    epoch: int = -1
    clean_epoch: int = -1
    incarnation: int = 0
    views: dict[Place, PartitionImage] = field(default_factory=dict)
    logs: dict[Place, Log] = field(default_factory=dict)
    ends: dict[Place, dict[int, tuple[int, int]]] = field(
        default_factory=dict
    )  # as a leader: end and epoch by follower
    pending: dict[Place, AlterPartitionRequest] = field(default_factory=dict)


class WatchedHarness(ControllerHarness):
    """A harness that passes each record to a function after its replay."""

    def __init__(self, note: Callable[[Record], None], **settings: Any) -> None:
        super().__init__(**settings)
        self._note = note

    def write(self, *written: Record) -> None:
        for record in written:
            super().write(record)
            self._note(record)


class ClusterModel:
    """A cluster of four brokers and a controller, which one seed decides."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.harness = WatchedHarness(self.note, node_id=OWN)
        self.harness.bootstrap().activate()
        self.brokers = {broker_id: Broker(broker_id) for broker_id in BROKERS}
        self.committed: dict[Place, Log] = {}
        self.unclean_epochs: dict[Place, int] = {}  # the leader epoch of the last unclean election
        self.records = 0
        self.copies: list[AlterPartitionRequest] = []  # requests that a network may still deliver, or deliver again
        self.seen: set[str] = set()
        for broker_id in BROKERS:
            self.start(broker_id)
            self.beat(broker_id)
        self.harness.ask(
            CreateTopicsRequest(
                topics=[
                    topic("safe", 2, 3, min_insync_replicas="2"),
                    topic("loose", 1, 3, unclean_leader_election_enable="true"),
                ]
            )
        )
        self.committed = {(name, index): [] for name, count in (("safe", 2), ("loose", 1)) for index in range(count)}

    # ---- events

    def run(self, events: int) -> ClusterModel:
        """Play random events. Raise Unsafe if the controller breaks a promise."""
        weights: dict[Callable[[], None], int] = {
            self.write: 12,
            self.fetch: 50,
            self.sync: 30,
            self.grow: 20,
            self.shrink: 3,
            self.deliver: 16,
            self.deliver_late: 10,
            self.heartbeat: 20,
            self.kill: 2,
            self.crash: 3,
            self.stop: 2,
            self.restart: 10,
            self.connection_lost: 2,
            self.pass_time: 2,
            self.restart_controller: 1,
            self.reassign: 2,
            self.elect: 2,
            self.unregister: 1,
        }
        for _ in range(events):
            (event,) = self.draw.choices([*weights], [*weights.values()])
            event()
            self.check()
        return self

    def write(self) -> None:
        broker, place, view = self.led()
        if view is not None:
            self.records += 1
            broker.logs.setdefault(place, []).append(self.records)
            self.commit(broker, place, view)

    def fetch(self) -> None:
        broker, place, view = self.led()
        if view is None:
            return
        follower = self.brokers[self.draw.choice(view.replicas)]
        seen = follower.views.get(place)
        if follower is broker or not follower.running or seen is None or seen.leader_epoch != view.leader_epoch:
            return
        whole = broker.logs.get(place, [])
        kept = follower.logs.get(place, [])
        common = next(
            (n for n, (a, b) in enumerate(zip(kept, whole, strict=False)) if a != b), min(len(kept), len(whole))
        )
        end = self.draw.choice((len(whole), len(whole), self.draw.randint(common, len(whole))))
        follower.logs[place] = whole[: max(common, end)]
        broker.ends.setdefault(place, {})[follower.id] = (len(follower.logs[place]), follower.epoch)
        self.commit(broker, place, view)

    def commit(self, leader: Broker, place: Place, view: PartitionImage) -> None:
        """Commit what the maximal ISR has, unless the committed ISR is too small."""
        outdated = view.leader_epoch < self.unclean_epochs.get(place, 0)
        if outdated or len(view.isr) < min(MIN_ISR[place[0]], len(view.replicas)):
            return
        known = leader.ends.get(place, {})
        log = leader.logs.get(place, [])
        maximal = {*view.isr, *self.proposed(leader, place)} - {leader.id}
        end = min([len(log), *(known.get(member, (0, 0))[0] for member in maximal)])
        if end > len(self.committed[place]) and log[: len(self.committed[place])] == self.committed[place]:
            self.committed[place] = log[:end]

    def proposed(self, leader: Broker, place: Place) -> list[int]:
        request = leader.pending.get(place)
        if request is None:
            return []
        return [member.broker_id for member in request.topics[0].partitions[0].new_isr_with_epochs]

    def sync(self) -> None:
        """Let a broker apply the metadata."""
        broker = self.draw.choice([*self.brokers.values()])
        if not broker.running:
            return
        for place in self.committed:
            new, old = self.partition(place), broker.views.get(place)
            if old is None or new.partition_epoch > old.partition_epoch:
                broker.pending.pop(place, None)
                if old is None or old.leader_epoch != new.leader_epoch:
                    broker.ends.pop(place, None)
                broker.views[place] = new
            if broker.id not in new.replicas:
                broker.logs.pop(place, None)

    def grow(self) -> None:
        broker, place, view = self.led()
        if view is None or place in broker.pending:
            return
        log, committed = broker.logs.get(place, []), len(self.committed[place])
        able = [
            (follower, epoch)
            for follower, (end, epoch) in broker.ends.get(place, {}).items()
            if follower not in view.isr and committed <= end <= len(log)
        ]
        if able:
            follower, epoch = self.draw.choice(able)
            states = [BrokerState(member, self.brokers[member].epoch) for member in view.isr]
            self.propose(broker, place, view, [*states, BrokerState(follower, epoch)])

    def shrink(self) -> None:
        broker, place, view = self.led()
        if view is not None and place not in broker.pending and len(view.isr) > 1:
            gone = self.draw.choice([member for member in view.isr if member != broker.id])
            kept = [BrokerState(member, self.brokers[member].epoch) for member in view.isr if member != gone]
            self.propose(broker, place, view, kept)

    def propose(self, broker: Broker, place: Place, view: PartitionImage, isr: list[BrokerState]) -> None:
        name, index = place
        request = broker.pending[place] = AlterPartitionRequest(
            broker.id,
            broker.epoch,
            [
                AlterPartitionRequestTopicData(
                    self.image().topics.by_name[name].id,
                    [AlterPartitionRequestPartitionData(index, view.leader_epoch, [], isr, 0, view.partition_epoch)],
                )
            ],
        )
        self.copies = [*self.copies[-COPIES_MAX:], request]

    def deliver_late(self) -> None:
        """Deliver an old copy of a request, whose sender waits no more."""
        if self.copies:
            try:
                self.harness.ask(self.draw.choice(self.copies))
            except ApiError as refused:
                assert refused.code is ErrorCode.STALE_BROKER_EPOCH

    def deliver(self) -> None:
        """Deliver an AlterPartition request, perhaps again; its response may be lost."""
        waiting = [(broker, place) for broker in self.brokers.values() for place in broker.pending]
        if not waiting:
            return
        broker, place = self.draw.choice(waiting)
        try:
            response = self.harness.ask(broker.pending[place])
        except ApiError as refused:
            assert refused.code is ErrorCode.STALE_BROKER_EPOCH
            return
        (result,) = response.topics[0].partitions
        view = broker.views.get(place)
        if self.draw.random() < 0.3 or view is None or not broker.running:
            return
        if result.error_code == ErrorCode.INELIGIBLE_REPLICA:
            self.seen.add("ineligible")
            refused_request = broker.pending.pop(place)
            self.copies = [copy for copy in self.copies if copy is not refused_request]
        elif (result.error_code, result.leader_epoch) == (0, view.leader_epoch):
            self.seen.add("altered")
            del broker.pending[place]
            broker.views[place] = self.partition(place)

    def heartbeat(self) -> None:
        self.beat(self.draw.choice(BROKERS))

    def beat(self, broker_id: int, **wants: Any) -> Any:
        broker = self.brokers[broker_id]
        if not broker.running:
            return None
        try:
            return self.harness.beat(broker_id, broker.epoch, **wants)
        except ApiError as refused:  # it was unregistered
            assert refused.code is ErrorCode.STALE_BROKER_EPOCH
            return None

    def kill(self) -> None:
        broker = self.draw.choice([*self.brokers.values()])
        broker.running, broker.clean_epoch = False, -1

    def crash(self) -> None:
        """Kill a broker, which starts again at once."""
        broker = self.draw.choice([*self.brokers.values()])
        broker.running, broker.clean_epoch = False, -1
        self.harness.notify(BrokerGone(broker.id, broker.epoch, refused=True))
        self.start(broker.id)
        self.beat(broker.id)

    def stop(self) -> None:
        """Let a broker ask for a controlled shutdown once. It stops if it may."""
        broker = self.draw.choice([*self.brokers.values()])
        response = self.beat(broker.id, want_shut_down=True)
        if response is not None and response.should_shut_down:
            self.seen.add("clean stop")
            broker.running, broker.clean_epoch = False, broker.epoch

    def restart(self) -> None:
        stopped = [broker for broker in self.brokers.values() if not broker.running]
        if stopped:
            broker = self.draw.choice(stopped)
            if self.draw.random() < 0.5 and broker.id != OWN:
                self.harness.notify(BrokerGone(broker.id, broker.epoch, refused=self.draw.random() < 0.5))
            self.start(broker.id)

    def start(self, broker_id: int) -> None:
        """Register a new process. After a kill its logs may be shorter."""
        broker = self.brokers[broker_id]
        broker.incarnation += 1
        try:
            epoch = self.harness.register(broker_id, broker.incarnation % 256, broker.clean_epoch)
        except ApiError as refused:
            assert refused.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
            return
        if broker.clean_epoch == -1:
            self.seen.add("unclean start")
            for log in broker.logs.values():
                del log[self.draw.randint(0, len(log)) :]
        broker.running, broker.epoch, broker.clean_epoch = True, epoch, -1
        broker.views, broker.ends, broker.pending = {}, {}, {}

    def connection_lost(self) -> None:
        broker = self.draw.choice([*self.brokers.values()])
        self.harness.notify(BrokerGone(broker.id, broker.epoch, refused=not broker.running))

    def pass_time(self) -> None:
        """Let time pass, after most running brokers sent a heartbeat."""
        for broker_id in BROKERS:
            if self.draw.random() < 0.9:
                self.beat(broker_id)
        self.harness.pass_time(self.draw.choice((1_000, 5_000, 12_000)))

    def restart_controller(self) -> None:
        """Start the controller again from its log, with its broker."""
        self.brokers[OWN].running, self.brokers[OWN].clean_epoch = False, -1
        old = self.harness
        self.harness = WatchedHarness(self.note, node_id=OWN)
        self.harness.now_ms = old.now_ms
        ControllerHarness.write(self.harness, *(entry.value for entry in old.log))
        self.harness.activate()
        assert old.freeze().image == self.harness.freeze().image
        self.start(OWN)

    def reassign(self) -> None:
        name, index = self.draw.choice([*self.committed])
        replicas = None if self.draw.random() < 0.3 else self.draw.sample(BROKERS, 3)
        self.harness.ask(
            AlterPartitionReassignmentsRequest(
                topics=[ReassignableTopic(name, [ReassignablePartition(index, replicas)])]
            )
        )

    def elect(self) -> None:
        self.harness.ask(ElectLeadersRequest(election_type=0, topic_partitions=None))

    def unregister(self) -> None:
        stopped = [broker.id for broker in self.brokers.values() if not broker.running]
        if stopped and stopped[0] in self.image().cluster.brokers:
            self.seen.add("unregistered")
            self.harness.ask(UnregisterBrokerRequest(stopped[0]))

    # ---- state

    def image(self) -> MetadataImage:
        return self.harness.freeze().image

    def partition(self, place: Place) -> PartitionImage:
        found = self.image().topics.partition(*place)
        assert found is not None
        return found

    def led(self) -> tuple[Broker, Place, PartitionImage | None]:
        """Return a random broker and partition, with the broker's view if it believes that it leads the partition."""
        place = self.draw.choice([*self.committed])
        believers = [
            broker
            for broker in self.brokers.values()
            if broker.running and place in broker.views and broker.views[place].leader == broker.id
        ]
        if not believers:
            return self.brokers[OWN], place, None
        broker = self.draw.choice(believers)
        return broker, place, broker.views[place]

    # ---- promises

    def check(self) -> None:
        """Raise Unsafe unless the metadata keeps every committed record."""
        image = self.image()
        for place, committed in self.committed.items():
            partition = self.partition(place)
            self.check_shape(place, partition)
            for member in (*partition.isr, *partition.elr):
                if self.kept(member, place, committed) != committed:
                    kind = "ISR" if member in partition.isr else "ELR"
                    raise Unsafe(
                        f"broker {member} is in the {kind} of {place} and lacks committed records: {partition}"
                    )
            if partition.elr:
                self.seen.add("eligible")
        assert image.cluster.brokers.keys() <= set(BROKERS)

    def note(self, record: Record) -> None:
        """Forget what an unclean election loses."""
        if isinstance(record, PartitionChangeRecord) and record.leader >= 0:
            topic = self.image().topics.by_id[record.topic_id]
            place, partition = (topic.name, record.partition_id), topic.partitions[record.partition_id]
            if partition.recovering:
                self.seen.add("unclean election")
                self.unclean_epochs[place] = partition.leader_epoch
                self.committed[place] = self.kept(partition.leader, place, self.committed[place])

    def kept(self, broker_id: int, place: Place, committed: Log) -> Log:
        """Return the committed records that the broker's replica has."""
        log = self.brokers[broker_id].logs.get(place, []) if broker_id != NO_LEADER else []
        length = next(
            (n for n, (a, b) in enumerate(zip(log, committed, strict=False)) if a != b), min(len(log), len(committed))
        )
        return committed[:length]

    def check_shape(self, place: Place, partition: PartitionImage) -> None:
        if set(partition.isr) & set(partition.elr):
            raise Unsafe(f"ISR and ELR of {place} overlap: {partition}")
        if partition.leader != NO_LEADER and partition.leader not in partition.isr:
            raise Unsafe(f"the leader of {place} is not in its ISR: {partition}")
        if not {*partition.isr, *partition.elr} <= set(partition.replicas):
            raise Unsafe(f"ISR or ELR of {place} have members without a replica: {partition}")

    def check_settled(self) -> None:
        """Raise Unsafe unless every ISR has active members only, once the controller's tasks are done."""
        self.harness.pass_time()
        image = self.image()
        active = {broker.id for broker in image.cluster.active()}
        for place in self.committed:
            partition = self.partition(place)
            if not {partition.leader, *partition.isr} <= {*active, NO_LEADER}:
                raise Unsafe(f"a broker that is not active is in the ISR of {place}: {partition}")
