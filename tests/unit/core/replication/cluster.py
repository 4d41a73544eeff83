"""A pure model of a cluster: three replicas of one partition, a controller, and messages that are late or lost.

The replicas take the decisions of `core/replication`. A seed is a schedule. Every step checks that all records below
any high watermark are the same in all logs, and that a new leader has every acknowledged record.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

from msgspec.structs import replace

from pykbroker.core.errors import ApiError
from pykbroker.core.log.epochs import LeaderEpochs
from pykbroker.core.metadata.image import PartitionImage
from pykbroker.core.replication import following
from pykbroker.core.replication.divergence import divergence
from pykbroker.core.replication.following import CutLog, Following, Position, Store
from pykbroker.core.replication.isr_change import IsrAnswer, IsrChange
from pykbroker.core.replication.leading import Leading
from pykbroker.core.replication.role import Role, require_leading
from wire.error_codes import ErrorCode
from wire.messages.fetch import PartitionData
from wire.records.batch import batches
from wire.records.builder import BatchBuilder

REPLICAS = (1, 2, 3)
MIN_ISR = 2
LAG_MS_MAX = 1000
RECORDS_MAX = 3
MESSAGES_MAX = 12


class Violation(Exception):
    """An error of a schedule that breaks a promise of replication."""


class Replica:
    """One broker's replica: its log with one record a batch, its role, and the metadata that it has received."""

    def __init__(self, broker_id: int) -> None:
        self.id, self.broker_epoch = broker_id, broker_id * 1000
        self.log: list[bytes] = []
        self.epochs = LeaderEpochs()
        self.checkpoint = 0
        self.waiting: list[int] = []
        self.begin()

    def begin(self) -> None:
        """Start with the log that the broker had, and the high watermark of its checkpoint."""
        self.metadata = PartitionImage((), (), -1, -1, -1)
        self.active: dict[int, int] = {}
        self.role: Role = Following()
        self.high_watermark = min(self.checkpoint, len(self.log))
        self.waiting.clear()

    @property
    def position(self) -> Position | None:
        """Return what the replica fetches next, or None while it does not follow."""
        if self.metadata.leader in (-1, self.id):
            return None
        return Position(self.metadata.leader_epoch, len(self.log), self.epochs.latest)

    def learn(self, image: PartitionImage, active: dict[int, int], now_ms: int) -> None:
        """Apply metadata."""
        known, self.metadata, self.active = self.metadata, image, dict(active)
        if image.leader == self.id:
            if isinstance(self.role, Leading) and image.leader_epoch == known.leader_epoch:
                self.role.apply(image)
            else:
                self.lead(image, now_ms)
            self.advance(now_ms)
        elif image.leader_epoch != known.leader_epoch:
            self.role = Following(image.leader_epoch)
            self.waiting.clear()
            self.cut(following.start_offset(self.epochs, self.high_watermark, len(self.log)))

    def lead(self, image: PartitionImage, now_ms: int) -> None:
        """Begin to lead in the leader epoch of this metadata."""
        self.epochs.assign(image.leader_epoch, len(self.log))
        self.role = Leading(self.id, image, len(self.log), now_ms)
        self.role.configure(MIN_ISR, flush_before_ack=False)

    def append(self, batch: bytes, epoch: int) -> None:
        if epoch != self.epochs.latest:
            self.epochs.assign(epoch, len(self.log))
        self.log.append(batch)

    def cut(self, offset: int) -> None:
        del self.log[offset:]
        self.epochs.truncate_end(len(self.log))
        self.high_watermark = min(self.high_watermark, len(self.log))
        self.checkpoint = min(self.checkpoint, len(self.log))

    def advance(self, now_ms: int) -> None:
        if isinstance(self.role, Leading):
            self.role.refresh(len(self.log), self.active, now_ms, LAG_MS_MAX)
            self.high_watermark = max(self.high_watermark, self.role.committed(len(self.log), len(self.log)))


class Cluster:
    """The replicas, the controller's state, and the messages in flight. A schedule runs from a seed."""

    def __init__(self, seed: int) -> None:
        self.random, self.now_ms, self.appended = Random(seed), 0, 0
        self.replicas = {each: Replica(each) for each in REPLICAS}
        self.fenced: set[int] = set()
        self.image = PartitionImage(REPLICAS, REPLICAS, 1, 0, 0)
        self.messages: list[Callable[[], None]] = []
        self.committed: dict[int, bytes] = {}
        self.acknowledged: dict[int, bytes] = {}
        self.grown = self.shrunk = self.truncated = self.elected = 0

    def run(self, steps: int) -> None:
        """Take random steps. Raise Violation if one of them breaks a promise."""
        actions = [self.deliver] * 40 + [self.fetch] * 24 + [self.produce] * 12 + [self.inform] * 6
        actions += (
            [self.pass_time] * 4 + [self.change_isr] * 4 + [self.checkpoint, self.elect, self.fence, self.unfence]
        )
        actions += [self.restart, self.lose]
        for _ in range(steps):
            self.random.choice(actions)()
            self._check()

    # ---- clients and time

    def produce(self) -> None:
        replica = self._any()
        with suppress(ApiError):
            leading = require_leading(replica.role)
            leading.require_min_isr()
            self.appended += 1
            builder = BatchBuilder(base_offset=len(replica.log), leader_epoch=leading.epoch)
            builder.append(None, str(self.appended).encode())
            replica.append(builder.build(), leading.epoch)
            replica.waiting.append(len(replica.log))
            replica.advance(self.now_ms)

    def pass_time(self) -> None:
        self.now_ms += self.random.randrange(600)

    def checkpoint(self) -> None:
        replica = self._any()
        replica.checkpoint = replica.high_watermark

    def restart(self) -> None:
        """Restart a broker cleanly, with its whole log. Many messages are lost."""
        replica = self._any()
        replica.broker_epoch += 1
        replica.begin()
        self.messages = [one for one in self.messages if self.random.random() < 0.5]

    def lose(self) -> None:
        """Drop a message."""
        if self.messages:
            del self.messages[self.random.randrange(len(self.messages))]

    # ---- replication

    def fetch(self) -> None:
        follower = self._any()
        asked, leader, broker_epoch = follower.position, follower.metadata.leader, follower.broker_epoch
        if asked is not None:
            self._send(lambda: self._serve(self.replicas[leader], follower, asked, broker_epoch))

    def _serve(self, leader: Replica, follower: Replica, asked: Position, broker_epoch: int) -> None:
        answer = PartitionData(records=b"")
        try:
            state = require_leading(leader.role, asked.leader_epoch).followers.get(follower.id)
            if state is None or asked.offset > len(leader.log):
                raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE if state else ErrorCode.NOT_LEADER_OR_FOLLOWER)
            end = len(leader.log)
            diverging = None
            if asked.last_epoch >= 0:
                diverging = divergence(leader.epochs, 0, end, asked.last_epoch, asked.offset)
            if diverging is not None:
                answer.diverging_epoch = diverging
            else:
                state.note_fetch(asked.offset, 0, end, broker_epoch, self.now_ms)
                leader.advance(self.now_ms)
                answer.records = b"".join(leader.log[asked.offset : asked.offset + self.random.randint(1, RECORDS_MAX)])
                self._propose(leader, follower.id)
            answer.high_watermark = leader.high_watermark
        except ApiError as error:
            answer.error_code = error.code
        if follower.broker_epoch == broker_epoch:  # a restarted broker gets no answers to earlier requests
            self._send(lambda: self._receive(leader, follower, asked, answer, broker_epoch))

    def _receive(
        self, leader: Replica, follower: Replica, asked: Position, answer: PartitionData, broker_epoch: int
    ) -> None:
        if follower.broker_epoch != broker_epoch:
            return
        decision = following.decide(asked, follower.position, answer, follower.epochs, 0, len(follower.log))
        if isinstance(decision, CutLog):
            self.truncated += decision.offset < len(follower.log)
            follower.cut(decision.offset)
        elif decision is following.Pause.LOOK_UP and isinstance(leader.role, Leading):
            found = following.after_range(len(leader.log), 0, len(follower.log))
            if found is not None:
                follower.cut(found.offset)
        elif isinstance(decision, Store):
            for batch in batches(decision.records):
                if batch.base_offset == len(follower.log):
                    follower.append(bytes(batch.buffer), batch.leader_epoch)
            follower.high_watermark = max(follower.high_watermark, min(decision.high_watermark, len(follower.log)))

    def change_isr(self) -> None:
        self._propose(self._any())

    def _propose(self, leader: Replica, follower: int | None = None) -> None:
        leading = leader.role
        if isinstance(leading, Following):
            return
        if follower is None:
            change = leading.shrunk(len(leader.log), self.now_ms, LAG_MS_MAX, leader.broker_epoch)
        else:
            change = leading.grown(follower, leader.high_watermark, leader.active, leader.broker_epoch)
        if change is not None:
            self._alter(leader, change)

    def _alter(self, leader: Replica, change: IsrChange) -> None:
        leader.advance(self.now_ms)
        self._send(lambda: self._decide(leader, change))

    def _settle(self, leader: Replica, change: IsrChange, answer: IsrAnswer) -> None:
        if isinstance(leader.role, Leading):
            if leader.role.settle(change, answer):
                self._alter(leader, change)
            leader.advance(self.now_ms)

    # ---- the controller

    def _decide(self, leader: Replica, change: IsrChange) -> None:
        image = self.image
        if change.leader_epoch != image.leader_epoch:
            answer = IsrAnswer(ErrorCode.FENCED_LEADER_EPOCH)
        elif change.partition_epoch != image.partition_epoch:
            answer = IsrAnswer(ErrorCode.INVALID_UPDATE_VERSION)
        elif any(
            each in self.fenced or epoch != self.replicas[each].broker_epoch for each, epoch in change.isr if epoch >= 0
        ):
            answer = IsrAnswer(ErrorCode.INELIGIBLE_REPLICA)
        else:
            self.grown += len(change.isr) > len(image.isr)
            self.shrunk += len(change.isr) < len(image.isr)
            self._commit(isr=change.members)
            image = self.image
            answer = IsrAnswer(ErrorCode.NONE, image.leader_epoch, image.partition_epoch, image.isr)
        self._send(lambda: self._settle(leader, change, answer))

    def _commit(self, *, isr: tuple[int, ...], leader: int | None = None) -> None:
        image = self.image
        moved = leader is not None
        self.image = replace(
            image,
            isr=isr,
            leader=leader if leader is not None else image.leader,
            leader_epoch=image.leader_epoch + moved,
            partition_epoch=image.partition_epoch + 1,
        )

    def elect(self) -> None:
        candidates = [each for each in self.image.isr if each not in self.fenced]
        if candidates:
            self.elected += 1
            self._commit(isr=self.image.isr, leader=self.random.choice(candidates))

    def fence(self) -> None:
        """Fence a broker, which leaves the ISR unless it is the last member, and elect another leader."""
        broker_id = self.random.choice(REPLICAS)
        isr = tuple(each for each in self.image.isr if each != broker_id)
        if isr and broker_id not in self.fenced:
            self.fenced.add(broker_id)
            self._commit(isr=isr, leader=isr[0] if self.image.leader == broker_id else None)

    def unfence(self) -> None:
        """Register a fenced broker again: it restarts, and may have lost the end of its log."""
        for broker_id in self.fenced - set(self.image.isr):
            replica = self.replicas[broker_id]
            replica.broker_epoch += 1
            replica.cut(len(replica.log) - self.random.randrange(3) if len(replica.log) > 3 else 0)
            replica.begin()
            self.fenced.discard(broker_id)
            self._commit(isr=self.image.isr)
            return

    def inform(self) -> None:
        """Send a broker the metadata."""
        replica = self._any()
        if replica.metadata != self.image:
            active = {each: self.replicas[each].broker_epoch for each in REPLICAS if each not in self.fenced}
            replica.learn(self.image, active, self.now_ms)
            if self.image.leader == replica.id and not self._has_all(replica):
                raise Violation(f"leader {replica.id} of epoch {self.image.leader_epoch} lacks an acknowledged record")

    # ---- messages and checks

    def deliver(self) -> None:
        if self.messages:
            self.messages.pop(self.random.randrange(len(self.messages)))()

    def _send(self, message: Callable[[], None]) -> None:
        self.messages.append(message)
        if len(self.messages) > MESSAGES_MAX:
            self.lose()

    def _any(self) -> Replica:
        return self.replicas[self.random.choice(REPLICAS)]

    def _has_all(self, leader: Replica) -> bool:
        return all(
            offset < len(leader.log) and leader.log[offset] == batch for offset, batch in self.acknowledged.items()
        )

    def _check(self) -> None:
        for replica in self.replicas.values():
            high_watermark = replica.high_watermark
            if high_watermark > len(replica.log):
                raise Violation(f"the high watermark {high_watermark} of broker {replica.id} is above its log")
            for offset in range(high_watermark):
                if self.committed.setdefault(offset, replica.log[offset]) != replica.log[offset]:
                    raise Violation(f"offset {offset} differs on broker {replica.id} below the high watermark")
            self._acknowledge(replica)

    def _acknowledge(self, leader: Replica) -> None:
        for end in list(leader.waiting):
            with suppress(ApiError):
                if require_leading(leader.role).is_committed(end, leader.high_watermark):
                    leader.waiting.remove(end)
                    self.acknowledged[end - 1] = leader.log[end - 1]
