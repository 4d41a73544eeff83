"""A writer of bursts of transactions in many partitions. A transaction begins as soon as the previous one is committed.

The markers of a transaction are on their way then, and meet the next transaction at the leaders. The writer has its
transactional id for itself, so that only a fault may spoil its transactions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import trio

from pykbroker.core.names import TRANSACTION_STATE_TOPIC
from pykbroker.sim.client import LOST, Dialer, SimConnection
from pykbroker.sim.history import Place
from pykbroker.sim.transactions.history import SpoiledTransaction, TransactionHistory
from pykbroker.sim.transactions.producer import Fenced, Spoiled, TransactionalProducer
from wire.messages.find_coordinator import CoordinatorType

REST_S = 0.5
PATIENCE_S = 8.0
BURST_MAX = 8


class BurstWriter:
    """A writer of transactions of version 2. When `draining` is true, it ends its burst, and is then `done`.

    `leader_epochs` returns the leader epochs of partitions, or None while they are unknown.
    """

    def __init__(
        self,
        producer: TransactionalProducer,
        dialer: Dialer,
        places: tuple[Place, ...],
        history: TransactionHistory,
        leader_epochs: Callable[[Iterable[Place]], tuple[int, ...] | None],
    ) -> None:
        self.producer, self._dialer, self._dice, self._places = producer, dialer, dialer.dice, places
        self._history, self._leader_epochs = history, leader_epochs
        self._made = 0
        self.draining = False
        self.done = trio.Event()

    async def run(self) -> None:
        """Write bursts until `draining` is true."""
        done = False
        while not done:
            fenced = False
            try:
                async with self._dialer.connected() as connection:
                    done = await self._session(connection)
            except LOST:
                pass
            except Fenced:
                fenced = True
            self.producer.give_up(fenced=fenced)
        self.done.set()

    async def _session(self, connection: SimConnection) -> bool:
        """Write on one connection, and return whether the writer is done. Raise Fenced or an error of LOST."""
        await connection.find_coordinator(self.producer.id, CoordinatorType.TRANSACTION)
        await self._patiently(self.producer.init(connection))
        before: tuple[int, ...] | None = None
        while not self.draining:
            await trio.sleep(self._dice.expovariate(1 / REST_S))
            for _ in range(self._dice.randrange(1, BURST_MAX + 1)):
                before = await self._write_one(connection, before)
        return True

    async def _write_one(self, connection: SimConnection, before: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """Write one transaction in all partitions, and commit it. Return the leader epochs at its begin.

        `before` are those at the begin of the previous transaction, if this session has committed one.
        """
        producer, places = self.producer, (*self._places, *((TRANSACTION_STATE_TOPIC, index) for index in range(2)))
        epochs = self._leader_epochs(places)
        transaction = producer.begin()
        batches = [producer.batch(place, [self._value(place)]) for place in self._places]
        try:
            await self._patiently(producer.produce(batches, connection))
        except Spoiled as spoiled:
            ended = SpoiledTransaction(transaction.name, str(spoiled), before, self._leader_epochs(places))
            self._history.spoiled.append(ended)
            raise
        await self._patiently(producer.end(True, connection))
        return epochs

    async def _patiently(self, asking: Awaitable[None]) -> None:
        with trio.fail_after(PATIENCE_S):
            await asking

    def _value(self, place: Place) -> bytes:
        self._made += 1
        return f"{place[0]}-{place[1]}/{self.producer.name}/{self._made} ".encode()
