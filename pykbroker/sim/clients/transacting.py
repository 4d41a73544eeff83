"""Transactional producers under faults, and the check that each transaction is written whole or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from typing import Any, NamedTuple

import msgspec
import trio

from pykbroker.consumer import Consumer
from pykbroker.core.consumer.position import CommittedOffset
from pykbroker.core.producer.errors import (
    BufferExhausted,
    IllegalCall,
    MetadataTimeout,
    TransactionAborted,
    TransactionError,
    TransactionTimeout,
)
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.producer import Producer
from pykbroker.sim.clients.stage import PARTITIONS, TOPIC, ClientStage

TRANSACTIONS, RECORDS_MAX = 25, 6
SOURCE = TopicPartition("source", 0)
GROUP = "copiers"
TRANSACTIONAL_ID = "copier"


class Member(NamedTuple):
    """A group without members, to which anyone may commit."""

    group_id: str = GROUP
    member_id: str = ""
    epoch: int = -1
    instance_id: str | None = None


class CopiedTransaction(msgspec.Struct):
    """A transaction, the records that `send` has taken, and its outcome. `offset` is -1 if it commits no offset."""

    number: int
    values: list[tuple[int, bytes]]
    offset: int = -1
    outcome: str = "unknown"


class TransactionRun:
    """Producers with one transactional id, each of which fences the one before. They copy from a source."""

    def __init__(self, stage: ClientStage, **settings: Any) -> None:
        self._stage, self._dice = stage, stage.simulation.dice("transactions")
        self._settings: dict[str, Any] = {
            "bootstrap_servers": stage.bootstrap,
            "transactional_id": TRANSACTIONAL_ID,
            "linger_ms": self._dice.choice((0, 5)),
            "batch_size": 300,
            "request_timeout_ms": self._dice.choice((500, 2_000)),
            "delivery_timeout_ms": self._dice.choice((5_000, 60_000)),
            "max_block_ms": self._dice.choice((3_000, 60_000)),
            "retry_backoff_ms": 50,
            **settings,
        }
        self.transactions: list[CopiedTransaction] = []
        self._producers = 0
        self._committed_offset: CommittedOffset | None = None
        stage.state.add_topic(SOURCE.topic)

    async def run(self) -> None:
        """Run all transactions. A producer that fails for good is replaced."""
        while len(self.transactions) < TRANSACTIONS:
            self._producers += 1
            producer = Producer(world=self._stage.world(f"producer{self._producers}"), **self._settings)
            is_fenced = self._dice.random() < 0.3
            with suppress(TransactionError, TransactionTimeout):
                await self._work(producer, 4 if is_fenced else TRANSACTIONS, is_fenced=is_fenced)
        await self._finish()

    async def _work(self, producer: Producer, count: int, *, is_fenced: bool) -> None:
        async with producer:
            await producer.init_transactions()
            for _ in range(count):
                if len(self.transactions) >= TRANSACTIONS:
                    return
                await self._transaction(producer)
            if is_fenced:
                await self._be_fenced(producer)

    async def _transaction(self, producer: Producer) -> None:
        """Write one transaction, and end it."""
        sent = CopiedTransaction(len(self.transactions), [])
        self.transactions.append(sent)
        await producer.begin_transaction()
        try:
            await self._write(producer, sent)
            if self._dice.random() < 0.3:
                await producer.abort_transaction()
                sent.outcome = "aborted"
            else:
                await self._commit(producer, sent)
        except TransactionError as error:
            if error.is_fatal:
                raise
            await producer.abort_transaction()
            sent.outcome = "aborted"
        except (MetadataTimeout, BufferExhausted, TransactionAborted):
            await producer.abort_transaction()
            sent.outcome = "aborted"

    async def _write(self, producer: Producer, sent: CopiedTransaction) -> None:
        for index in range(self._dice.randint(1, RECORDS_MAX)):
            partition = self._dice.randrange(PARTITIONS)
            value = f"{sent.number:03} {index} ".encode().ljust(self._dice.choice((20, 100)), b".")
            await producer.send(TOPIC, value, partition=partition)
            sent.values.append((partition, value))
            await trio.sleep(self._dice.expovariate(5))
        if self._dice.random() < 0.5:
            sent.offset = sent.number + 1
            await producer.send_offsets_to_transaction({SOURCE: CommittedOffset(sent.offset)}, Member())

    async def _commit(self, producer: Producer, sent: CopiedTransaction) -> None:
        """Commit. A call that timed out or was cancelled is repeated, and cannot be taken back by an abort."""
        for _ in range(20):
            with trio.move_on_after(self._dice.choice((0.02, 0.2, inf))):
                try:
                    await producer.commit_transaction()
                except TransactionTimeout:
                    continue
                sent.outcome = "committed"
                return
            with suppress(IllegalCall):
                await producer.abort_transaction()
                sent.outcome = "aborted"
                return
        raise TransactionTimeout("the commit has no result")

    async def _be_fenced(self, producer: Producer) -> None:
        """Leave a transaction open, and start a second producer, which fences this one."""
        sent = CopiedTransaction(len(self.transactions), [])
        self.transactions.append(sent)
        await producer.begin_transaction()
        await self._write(producer, sent)
        self._producers += 1
        world = self._stage.world(f"producer{self._producers}")
        async with Producer(world=world, **self._settings) as second:
            await second.init_transactions()
            sent.outcome = "aborted"
            self._stage.expect(await self._is_refused(producer), "a fenced producer may commit")

    async def _is_refused(self, producer: Producer) -> bool:
        try:
            await self._commit(producer, CopiedTransaction(-1, []))
        except (TransactionError, IllegalCall):
            return True
        return False

    async def _finish(self) -> None:
        """Let another producer end the transaction that the last one may have left open."""
        settings = self._settings | {"max_block_ms": 300_000}
        async with Producer(world=self._stage.world("last"), **settings) as producer:
            await producer.init_transactions()
        world = self._stage.world("reader")
        async with Consumer(world=world, bootstrap_servers=self._stage.bootstrap, group_id=GROUP) as consumer:
            self._committed_offset = (await consumer.committed([SOURCE])).get(SOURCE)

    # ---- the check

    def check(self) -> None:
        """Compare the committed records with the outcomes."""
        expect = self._stage.expect
        logs = [list(self._committed(index)) for index in range(PARTITIONS)]
        offset = 0
        counts = Counter((index, value) for index, log in enumerate(logs) for value in log)
        for sent in self.transactions:
            found = [counts[each] for each in sent.values]
            name = f"transaction {sent.number} ({sent.outcome})"
            if sent.outcome == "committed":
                expect(all(found), f"lost: {name} is not complete: {found}")
            if sent.outcome == "aborted":
                expect(not any(found), f"phantom: {name} is visible: {found}")
            expect(all(found) or not any(found), f"torn: {name} is visible in part: {found}")
            expect(max(found, default=0) <= 1, f"doubled: {name}: {found}")
            if sent.offset >= 0 and any(found):
                offset = sent.offset
        committed = 0 if self._committed_offset is None else self._committed_offset.offset
        expect(committed == offset, f"offset: {committed} is committed, and the records up to {offset} are copied")
        for log in logs:
            expect(log == sorted(log), "reordered: the records are not in the order of their calls")
        for partition in self._stage.partitions:
            written = self._stage.state.log(partition)
            expect(written.last_stable_offset == written.end_offset, "open: a transaction never ended")

    def _committed(self, index: int) -> Iterator[bytes]:
        """Yield the committed values of a partition."""
        log = self._stage.state.log(TopicPartition(TOPIC, index))
        return (bytes(record.value or b"") for record in log.committed_records)
