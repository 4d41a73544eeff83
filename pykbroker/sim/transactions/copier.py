"""An exactly-once copier: a group member that writes copies and commits its offsets in one transaction."""

from __future__ import annotations

from collections.abc import Awaitable

import trio

from pykbroker.sim.client import LOST, Dialer, SimConnection
from pykbroker.sim.consumer import fetch
from pykbroker.sim.groups.classic_member import ClassicSimMember
from pykbroker.sim.groups.history import Commit
from pykbroker.sim.groups.member import SESSION_S
from pykbroker.sim.groups.offsets import fetch_offsets
from pykbroker.sim.groups.refusal import Evicted
from pykbroker.sim.history import Place
from pykbroker.sim.transactions.history import TransactionHistory
from pykbroker.sim.transactions.producer import Fenced, TransactionalProducer
from wire.messages.find_coordinator import CoordinatorType

THINK_S, UNSTABLE_S = 0.3, 0.1
PATIENCE_S = (1.0, 8.0)
ABORTS, SILENT = 0.1, 0.03
AWAY_S_MAX = 2 * SESSION_S
PARTITION_BYTES_MAX = (1000, 50_000)
SOURCE = b"|"
"""The prefix of a copied value. The number of the attempt follows it."""


class Copier:
    """An exactly-once copier. While `calm` is true, it neither aborts transactions nor pauses."""

    def __init__(
        self,
        producer: TransactionalProducer,
        member: ClassicSimMember,
        dialer: Dialer,
        history: TransactionHistory,
        targets: tuple[Place, ...],
    ) -> None:
        self.producer, self._member, self._dialer, self._dice = producer, member, dialer, dialer.dice
        self._history, self._targets = history, targets
        self._attempts = 0
        self.calm = False

    async def run(self) -> None:
        """Copy until cancelled. After an error, fence the open transaction and fetch the committed offsets again."""
        while True:
            fenced = False
            try:
                async with self._dialer.connected() as connection:
                    await self._session(connection)
            except LOST:
                pass
            except Evicted as evicted:
                self._member.forget(forgotten=evicted.forgotten)
            except Fenced:
                fenced = True
            self.producer.give_up(fenced=fenced)

    async def _session(self, connection: SimConnection) -> None:
        """Copy on one connection. Raise Fenced, Evicted or an error of LOST."""
        member = self._member
        await connection.find_coordinator(self.producer.id, CoordinatorType.TRANSACTION)
        await connection.find_coordinator(member.group, CoordinatorType.GROUP)
        await self._patiently(self.producer.init(connection))
        await member.enter(connection)
        positions = await self._positions(connection)
        while True:
            await trio.sleep(self._dice.expovariate(1 / THINK_S))
            await member.beat(connection)
            if member.owned:
                await self._copy_some(connection, positions)

    async def _positions(self, connection: SimConnection) -> dict[Place, int]:
        """Return the committed offsets of the partitions, after waiting until they are stable."""
        positions: dict[Place, int] = {}
        member = self._member
        while missing := [place for place in member.owned if place not in positions]:
            positions |= await fetch_offsets(
                connection, self._history.groups, member.name, member.group, missing, stable=True
            )
            await trio.sleep(UNSTABLE_S)
            await member.beat(connection)
        return {place: max(position, 0) for place, position in positions.items()}

    async def _copy_some(self, connection: SimConnection, positions: dict[Place, int]) -> None:
        """Copy some records in one transaction."""
        dice, producer, member = self._dice, self.producer, self._member
        asked = {place: positions[place] for place in member.owned}
        polls = await fetch(
            connection,
            member.name,
            asked,
            self._history.logs,
            max_wait_ms=100,
            partition_bytes_max=dice.choice(PARTITION_BYTES_MAX),
        )
        found = [poll for poll in polls if poll.next_offset > poll.offset]
        if not found:
            return
        producer.begin()
        values = [value for poll in found for _, value in poll.found]
        for part in (values[::2], values[1::2]):
            if part:
                batch = producer.batch(dice.choice(self._targets), [self._copy(value) for value in part])
                await self._patiently(producer.produce([batch], connection))
        await self._maybe_silent()
        commits = [self._commit(poll.place, poll.next_offset) for poll in sorted(found, key=lambda poll: poll.place)]
        await self._patiently(producer.commit_offsets(commits, member.identity, connection))
        await self._maybe_silent()
        commit = self.calm or dice.random() > ABORTS
        await self._patiently(producer.end(commit, connection))
        if commit:
            positions |= {poll.place: poll.next_offset for poll in found}

    def _copy(self, value: bytes) -> bytes:
        self._attempts += 1
        return b"%b%b%b/%d " % (value.partition(b" ")[0], SOURCE, self.producer.name.encode(), self._attempts)

    def _commit(self, place: Place, offset: int) -> Commit:
        self._attempts += 1
        return Commit(
            self._member.group,
            place,
            offset,
            f"{self.producer.name}/{self._attempts}",
            trio.current_time(),
            in_transaction=True,
        )

    async def _patiently(self, asking: Awaitable[None]) -> None:
        with trio.fail_after(self._dice.choice(PATIENCE_S)):
            await asking

    async def _maybe_silent(self) -> None:
        if self._dice.random() < SILENT and not self.calm:
            await trio.sleep(self._dice.uniform(0, AWAY_S_MAX))
