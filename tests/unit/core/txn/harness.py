"""A harness for the transactions state machine: it replays decided records at once and keeps each reply."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pykbroker.core.coordinator.record import CoordinatorRecord, LogRecord
from pykbroker.core.now import Now
from pykbroker.core.outcome import Entry
from pykbroker.core.producer_epoch import EPOCH_MAX
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.core.txn.machine import TransactionsMachine
from pykbroker.core.txn.requests import (
    AddPartitions,
    AnyTransactionRequest,
    AwaitEnd,
    AwaitMarkers,
    EndTransaction,
    FindTransaction,
    FoundTransactions,
    InitProducer,
    MarkersWritten,
    TransactionAnswer,
)
from pykbroker.core.txn.settings import TransactionSettings
from pykbroker.core.txn.transaction import Transaction
from wire.error_codes import ErrorCode
from wire.records.batch import batches
from wire.records.record import records
from wire.stored.framing import decode_key, decode_versioned
from wire.stored.transaction_log import TRANSACTION_RECORDS, TransactionLogKey, TransactionLogValue

GOLDEN = Path(__file__).parents[3] / "data" / "golden"
NOW_MS = 1_795_266_164_877
NAME = "copier"
ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 3)

Rsp = TypeVar("Rsp")


class Ids:
    """A source of producer ids from 100 on, which is exhausted after `left` ids."""

    def __init__(self) -> None:
        self.next, self.left = 100, 1000

    def next_nowait(self) -> int | None:
        if not self.left:
            return None
        self.left, self.next = self.left - 1, self.next + 1
        return self.next - 1


class TransactionsHarness:
    """The transactions state machine and its log. `log` has all records, `wall_ms` is the wall clock.

    `replies` has the replies to callers that had to wait.
    """

    def __init__(self, transaction_version: int = 2, **settings: int) -> None:
        self.settings = TransactionSettings(lambda: transaction_version, **settings)
        self.ids, self.log, self.wall_ms = Ids(), list[LogRecord](), NOW_MS
        self.replies: dict[Any, Any] = {}
        self.load()

    @property
    def now(self) -> Now:
        return Now(self.wall_ms, self.wall_ms)

    def load(self, *before: LogRecord) -> None:
        """Append the given records to the log, and restart the state machine from the log."""
        self.machine = TransactionsMachine(self.settings, self.ids)
        self.log.extend(before)
        for offset, record in enumerate(self.log):
            self.machine.replay(Entry(offset, record))
        self._take(self.machine.loaded(self.now))

    def _take(self, outcome: Any) -> int:
        for record in outcome.records:
            self.machine.replay(Entry(len(self.log), record))
            self.log.append(record)
        for token, reply in outcome.replies:
            assert token not in self.replies
            self.replies[token] = reply
        return len(outcome.records)

    def ask(self, request: AnyTransactionRequest, expected: type[Rsp] = TransactionAnswer) -> Rsp:  # type: ignore[assignment]
        """Return the reply to a request that never waits."""
        token = object()
        self._take(self.machine.handle(request, token, self.now))
        self.pass_ms(0)
        reply = self.replies.pop(token)
        assert isinstance(reply, expected)
        return reply

    def await_markers(self, token: object) -> None:
        self._take(self.machine.handle(AwaitMarkers(), token, self.now))
        self.pass_ms(0)

    def await_end(self, token: object, patience_ms: int) -> None:
        self._take(self.machine.handle(AwaitEnd(NAME, patience_ms), token, self.now))

    def pass_ms(self, passed_ms: int) -> None:
        """Advance the time, and run every timer that is due."""
        self.wall_ms += passed_ms
        while self.machine.deadline_ms <= self.wall_ms:
            self._take(self.machine.tick(self.now))

    def init(self, producer_id: int = -1, epoch: int = -1, *, timeout_ms: int = 60_000) -> TransactionAnswer:
        return self.ask(InitProducer(NAME, timeout_ms, producer_id, epoch))

    def add(self, *partitions: tuple[str, int], producer_id: int = 100, epoch: int = 0, version: int = 0) -> ErrorCode:
        added = frozenset(TopicPartition(*place) for place in partitions)
        return self.ask(AddPartitions(NAME, producer_id, epoch, added, version)).error_code

    def end(self, commit: bool, *, producer_id: int = 100, epoch: int = 0, version: int = 0) -> TransactionAnswer:
        return self.ask(EndTransaction(NAME, producer_id, epoch, commit, version))

    def complete(self) -> None:
        """Report that the markers are written."""
        known = self.known
        assert self.ask(MarkersWritten(NAME, known.producer_id, known.epoch)) == TransactionAnswer()

    @property
    def known(self) -> Transaction:
        """Return the transaction with the id `NAME`."""
        return self.ask(FindTransaction(NAME), FoundTransactions).transactions[0]

    @property
    def states(self) -> list[int]:
        """Return the states of all records in the log."""
        return [
            record.value.transaction_status
            for record in self.log
            if isinstance(record, CoordinatorRecord) and isinstance(record.value, TransactionLogValue)
        ]


def at_epoch(epoch: int, **fields: Any) -> CoordinatorRecord:
    """Return a record of the transaction `NAME` with producer id 100 and this epoch."""
    return Transaction(NAME, 100, 60_000, epoch, updated_ms=NOW_MS, previous_producer_id=100, **fields).record(2)


LAST_EPOCH = EPOCH_MAX - 1


def golden_log(kind: str, partition: int) -> Iterator[CoordinatorRecord]:
    """Return the records that Kafka wrote to the partition of `__transaction_state`."""
    path = f"{kind}/__transaction_state-{partition}/00000000000000000000.log"
    with tarfile.open(GOLDEN / f"logdir-{kind}.tar.xz") as archive:
        file = archive.extractfile(path)
        assert file is not None
        stored = file.read()
    for batch in batches(stored):
        for record in records(batch, 1 << 20):
            key = decode_key(TRANSACTION_RECORDS, record.key or b"")
            assert isinstance(key, TransactionLogKey)
            value = None if record.value is None else decode_versioned(TransactionLogValue, record.value)
            yield CoordinatorRecord(key, value, 1)
