"""A writer of random transactions.

The writer commits most transactions, abandons some, and shares its transactional id with another writer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random

import trio

from pykbroker.sim.client import LOST, Again, Dialer, SimConnection
from pykbroker.sim.groups.history import Commit
from pykbroker.sim.groups.offsets import NOBODY
from pykbroker.sim.groups.refusal import Evicted
from pykbroker.sim.history import Place
from pykbroker.sim.transactions.producer import TRANSACTION_TIMEOUT_S, Fenced, TransactionalProducer
from wire.messages.find_coordinator import CoordinatorType

THINK_S = 0.1
REST_S = 1.0
"""The time for which a fenced producer leaves the transactional id to the other producer, in seconds."""
PATIENCE_S = (0.2, 1.0, 8.0)
"""The time that a writer waits for a response before it opens another connection, in seconds."""
RETRIES, COMMITS, OFFSETS, FORGETS, ABORTS = 0.6, 0.8, 0.4, 0.04, 0.5
STEPS_MAX, BATCHES_MAX, RECORDS_MAX = 3, 3, 4
WriterStep = Callable[[SimConnection], Awaitable[None]]


class TransactionWriter:
    """A writer of transactions. When `draining` is true, it ends its open transaction, and is then `done`.

    The random generator `abort_dice` decides whether it aborts a transaction whose last request had no response.
    """

    def __init__(
        self, producer: TransactionalProducer, dialer: Dialer, places: tuple[Place, ...], group: str, abort_dice: Random
    ) -> None:
        self.producer, self._dialer, self._dice, self._abort_dice = producer, dialer, dialer.dice, abort_dice
        self._places, self._group = places, group
        self._steps: deque[WriterStep] = deque()
        self._made = 0
        self.draining = False
        self.done = trio.Event()

    async def run(self) -> None:
        """Write transactions until `draining` is true and the last transaction has ended."""
        done = False
        while not done:
            try:
                async with self._dialer.connected() as connection:
                    done = await self._session(connection)
            except LOST:
                if self.producer.may_abort and self._abort_dice.random() < ABORTS:
                    self._steps = deque([self._abort])
                elif not self.producer.may_retry or self._dice.random() > RETRIES:
                    self._give_up(fenced=False)
            except (Fenced, Evicted):
                self._give_up(fenced=True)
                done = self.draining
                await trio.sleep(self._dice.expovariate(1 / REST_S))
        self.done.set()

    def _give_up(self, *, fenced: bool) -> None:
        self._steps.clear()
        self.producer.give_up(fenced=fenced)

    async def _session(self, connection: SimConnection) -> bool:
        """Write on one connection, and return whether the writer is done. Raise Fenced, Evicted or an error of LOST."""
        dice, producer = self._dice, self.producer
        await connection.find_coordinator(producer.id, CoordinatorType.TRANSACTION)
        await connection.find_coordinator(self._group, CoordinatorType.GROUP)
        if not producer.ready:
            await self._patiently(producer.init(connection))
        while self._steps or not self.draining:
            if not self._steps:
                self._plan()
            await trio.sleep(dice.expovariate(1 / THINK_S))
            if dice.random() < FORGETS and not self.draining:
                await trio.sleep(dice.uniform(0, 2 * TRANSACTION_TIMEOUT_S))
            await self._patiently(self._steps[0](connection))
            self._steps.popleft()
        return True

    async def _patiently(self, asking: Awaitable[None]) -> None:
        with trio.fail_after(self._dice.choice(PATIENCE_S)):
            await asking

    def _plan(self) -> None:
        """Draw the actions of the next transaction."""
        dice, producer = self._dice, self.producer
        producer.begin()
        for _ in range(dice.randrange(1, STEPS_MAX + 1)):
            places = sorted(dice.sample(self._places, dice.randrange(1, BATCHES_MAX + 1)))
            self._steps.append(
                partial(
                    producer.produce,
                    [
                        producer.batch(place, [self._value(place) for _ in range(dice.randrange(1, RECORDS_MAX + 1))])
                        for place in places
                    ],
                )
            )
        if dice.random() < OFFSETS:
            self._steps.append(partial(self._commit_offsets, []))
        self._steps.append(partial(producer.end, dice.random() < COMMITS))

    def _value(self, place: Place) -> bytes:
        self._made += 1
        return f"{place[0]}-{place[1]}/{self.producer.name}/{self._made} ".encode()

    async def _abort(self, connection: SimConnection) -> None:
        """Abort the transaction in the current epoch, while older requests may still be in flight.

        Raise Again if the abort fails.
        """
        await self.producer.end(False, connection)
        self._give_up(fenced=False)
        raise Again("begins anew")

    async def _commit_offsets(self, commits: list[Commit], connection: SimConnection) -> None:
        """Commit offsets of a group in the transaction. The first attempt fills `commits`."""
        if not commits:
            place = self._dice.choice(self._places)
            self._made += 1
            commits.append(
                Commit(
                    self._group,
                    place,
                    self._made,
                    f"{self.producer.name}/{self._made}",
                    trio.current_time(),
                    in_transaction=True,
                )
            )
        await self.producer.commit_offsets(commits, NOBODY, connection)
