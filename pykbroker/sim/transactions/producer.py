"""A transactional producer with a method for each of its requests, for transaction versions 1 and 2.

With version 1 the producer adds partitions and groups before it writes to them. With version 2 it writes at once
(Produce 12, TxnOffsetCommit 5), and every EndTxn (5) returns a new epoch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from typing import TypeVar

import trio

from pykbroker.sim.client import TEMPORARY, VERSION_MAX, Again, Dialer, SimConnection
from pykbroker.sim.groups.history import Commit
from pykbroker.sim.groups.offsets import NOBODY, Committer
from pykbroker.sim.groups.refusal import EVICTED, Evicted
from pykbroker.sim.history import Place, Send, SendOutcome
from pykbroker.sim.producer import TIMEOUT_MS, PendingBatch
from pykbroker.sim.stage import Stage
from pykbroker.sim.transactions.history import Decision, Deed, SentTransaction, Takeover, TransactionHistory
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from wire.messages.end_txn import EndTxnRequest
from wire.messages.init_producer_id import InitProducerIdRequest
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from wire.records.builder import BatchBuilder
from wire.sentinels import ACKS_ALL, NO_OFFSET, NO_PRODUCER_EPOCH, NO_PRODUCER_ID

T = TypeVar("T")
TRANSACTION_TIMEOUT_S = 4.0
CONCURRENT_S = 0.05
"""The pause before the producer retries a request while its last transaction is being completed, in seconds."""
ADDED_VERSION_LAST = 3
"""The last version of AddPartitionsToTxn for clients. Newer versions are for brokers."""
PRODUCE_2, OFFSETS_2, END_2, MEMBER_VERSION_FIRST = 12, 5, 5, 3
FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
SPOILED = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE})


class Fenced(Exception):
    """An error for a producer that is fenced by a newer producer, or whose transaction the coordinator has aborted."""


class Spoiled(Fenced):
    """An error for a producer whose transaction cannot be committed, although nobody has fenced the producer."""


class TransactionalProducer:
    """A producer with a transactional id, which other producers may share.

    `transaction` is the open transaction, or one whose EndTxn is unanswered.
    """

    def __init__(
        self,
        name: str,
        transactional_id: str,
        dialer: Dialer,
        history: TransactionHistory,
        stage: Stage,
        *,
        version: int,
    ) -> None:
        self.name, self.id, self._version = name, transactional_id, version
        self._dice, self._history, self._wall_ms = dialer.dice, history, stage.wall_ms
        self._producer_id, self._epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        self._may_go_on = self._ending = False
        self._sequences: dict[Place, int] = {}
        self._added: set[Place | str] = set()
        self._made = 0
        self.transaction: SentTransaction | None = None

    @property
    def ready(self) -> bool:
        return self._epoch != NO_PRODUCER_EPOCH and not self._may_go_on

    @property
    def may_retry(self) -> bool:
        """Whether a request without a response may be sent again."""
        return self._version > 1 or not self._ending

    @property
    def may_abort(self) -> bool:
        """Whether a transaction is open and its end was not requested."""
        return self.ready and self.transaction is not None and not self._ending

    def give_up(self, *, fenced: bool) -> None:
        """Drop the epoch and the transaction, so that the producer calls `init` again.

        Unless `fenced` is true, `init` may send the old epoch.
        """
        self._may_go_on = not fenced and self._dice.random() < 0.5
        if not self._may_go_on:
            self._producer_id, self._epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        self._close()

    def _close(self) -> None:
        self.transaction, self._ending = None, False
        self._added.clear()

    # ---- requests

    async def init(self, connection: SimConnection) -> None:
        """Send InitProducerId to take over the transactional id or to get a new epoch.

        Raise Fenced, Again or an error of LOST.
        """
        request = InitProducerIdRequest(
            transactional_id=self.id,
            transaction_timeout_ms=int(TRANSACTION_TIMEOUT_S * 1000),
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
        )
        version = connection.any_version(ApiKey.INIT_PRODUCER_ID, 3 if self._may_go_on else 0)
        answer = await self._repeat(lambda: connection.ask(request, version), lambda answer: [answer.error_code])
        self._may_go_on = False
        self._begin_epoch(answer.producer_id, answer.producer_epoch)
        self._history.takeovers.append(
            Takeover(self.id, answer.producer_id, answer.producer_epoch, trio.current_time())
        )

    def _begin_epoch(self, producer_id: int, epoch: int) -> None:
        self._producer_id, self._epoch = producer_id, epoch
        self._sequences = {}

    def begin(self) -> SentTransaction:
        """Begin the next transaction. This sends no request."""
        self._made += 1
        self.transaction = SentTransaction(f"{self.name}/{self._made}", [], [])
        self._history.transactions.append(self.transaction)
        return self.transaction

    def batch(self, place: Place, values: Sequence[bytes]) -> PendingBatch:
        """Return a batch of the transaction. Batches are sent in the order of these calls."""
        assert self.transaction is not None
        builder = BatchBuilder(
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            transactional=True,
            base_sequence=self._sequences.get(place, 0),
        )
        for value in values:
            builder.append(None, value, (), self._wall_ms())
            self.transaction.values.append((place, value))
        self._sequences[place] = self._sequences.get(place, 0) + len(values)
        pending = PendingBatch(Send(f"{self.name} in {self._epoch}", place, tuple(values)), builder.build())
        self._history.logs.sends.append(pending.send)
        return pending

    async def produce(self, batches: Sequence[PendingBatch], connection: SimConnection) -> None:
        """Write these batches, at most one per partition, and wait until they are acknowledged.

        Raise Fenced, Again or an error of LOST.
        """
        await self._add_partitions(connection, [pending.send.place for pending in batches])
        versions = (PRODUCE_2, VERSION_MAX) if self._version > 1 else (3, PRODUCE_2 - 1)
        version = connection.any_version(ApiKey.PRODUCE, *versions)
        request = ProduceRequest(transactional_id=self.id, acks=ACKS_ALL, timeout_ms=TIMEOUT_MS)
        for pending in batches:
            topic, index = pending.send.place
            request.topic_data.append(
                TopicProduceData(topic, connection.topic_id(topic), [PartitionProduceData(index, pending.data)])
            )
        answer = await self._repeat(
            lambda: connection.ask(request, version),
            lambda answer: [topic.partition_responses[0].error_code for topic in answer.responses],
        )
        for pending, produced in zip(batches, answer.responses, strict=True):
            pending.send.outcome = SendOutcome.ACKNOWLEDGED
            one = produced.partition_responses[0]
            pending.send.base_offset = one.base_offset if not one.error_code else NO_OFFSET

    async def _add_partitions(self, connection: SimConnection, places: list[Place]) -> None:
        missing = sorted(place for place in places if place not in self._added)
        if self._version > 1 or not missing:
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(topic, [index for _, index in found])
                for topic, found in groupby(missing, key=lambda place: place[0])
            ],
        )
        version = connection.any_version(ApiKey.ADD_PARTITIONS_TO_TXN, last=ADDED_VERSION_LAST)
        await self._repeat(
            lambda: connection.ask(request, version),
            lambda answer: [
                one.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for one in topic.results_by_partition
            ],
        )
        self._added.update(missing)

    async def commit_offsets(self, commits: Sequence[Commit], who: Committer, connection: SimConnection) -> None:
        """Commit offsets of a group in the transaction. Raise Fenced, Evicted, Again or an error of LOST."""
        assert self.transaction is not None
        group = commits[0].group
        await self._add_group(connection, group)
        versions = (
            (OFFSETS_2, OFFSETS_2)
            if self._version > 1
            else (MEMBER_VERSION_FIRST if who != NOBODY else 0, OFFSETS_2 - 1)
        )
        version = connection.any_version(ApiKey.TXN_OFFSET_COMMIT, *versions)
        request = TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=group,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            generation_id=who.generation,
            member_id=who.member_id,
            group_instance_id=who.instance_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    topic,
                    [
                        TxnOffsetCommitRequestPartition(one.place[1], one.offset, committed_metadata=one.mark)
                        for one in found
                    ],
                )
                for topic, found in groupby(commits, key=lambda one: one.place[0])
            ],
        )
        if commits[0] not in self.transaction.offsets:
            self.transaction.offsets += commits
        await self._repeat(
            lambda: connection.ask(request, version),
            lambda answer: [one.error_code for topic in answer.topics for one in topic.partitions],
        )

    async def _add_group(self, connection: SimConnection, group: str) -> None:
        if self._version > 1 or group in self._added:
            return
        request = AddOffsetsToTxnRequest(self.id, self._producer_id, self._epoch, group)
        version = connection.any_version(ApiKey.ADD_OFFSETS_TO_TXN)
        await self._repeat(lambda: connection.ask(request, version), lambda answer: [answer.error_code])
        self._added.add(group)

    async def end(self, commit: bool, connection: SimConnection) -> None:
        """Send EndTxn to commit or abort the transaction. Raise Fenced, Again or an error of LOST."""
        transaction = self.transaction
        assert transaction is not None
        request = EndTxnRequest(self.id, self._producer_id, self._epoch, commit)
        versions = (END_2, END_2) if self._version > 1 else (0, END_2 - 1)
        version = connection.any_version(ApiKey.END_TXN, *versions)
        is_first, self._ending = transaction.decision is Decision.VOID, True
        if commit and is_first:
            transaction.asked_s, transaction.decision = trio.current_time(), Decision.UNDECIDED
            for one in transaction.offsets:
                one.not_before_s = transaction.asked_s
        try:
            answer = await self._repeat(lambda: connection.ask(request, version), lambda answer: [answer.error_code])
        except Fenced:
            if is_first:
                transaction.decision = Decision.VOID
            raise
        if commit:
            transaction.decision = Decision.COMMITTED
            for one in transaction.offsets:
                one.ended_s = trio.current_time()
        self._close()
        if self._version > 1:
            self._begin_epoch(answer.producer_id, answer.producer_epoch)

    async def _repeat(self, ask: Callable[[], Awaitable[T]], codes: Callable[[T], list[int]]) -> T:
        """Send a request, and repeat it while the broker still completes another transaction of this producer."""
        while True:
            began_s = trio.current_time()
            answer = await ask()
            worst = [ErrorCode(code) for code in codes(answer) if code]
            if not worst:
                if self._epoch != NO_PRODUCER_EPOCH:
                    self._history.deeds.append(
                        Deed(
                            self.id,
                            self._producer_id,
                            self._epoch,
                            began_s,
                            type(answer).__name__.removesuffix("Response"),
                        )
                    )
                return answer
            if set(worst) != {ErrorCode.CONCURRENT_TRANSACTIONS}:
                raise self._refusal(worst)
            await trio.sleep(CONCURRENT_S * (0.5 + self._dice.random()))

    def _refusal(self, codes: list[ErrorCode]) -> Exception:
        for code in codes:
            if code in FENCED:
                return Fenced(code.name)
            if code in SPOILED:
                return Spoiled(code.name)
            if code in EVICTED:
                return Evicted(code)
            if code not in TEMPORARY and code is not ErrorCode.OPERATION_NOT_ATTEMPTED:
                self._history.unexpected.append(f"{self.name} got {code.name}")
        return Again(codes[0].name)
