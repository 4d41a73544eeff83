"""The workload of transactions: writers that share transactional ids, exactly-once copiers, and consumers.

In a cluster, writers of bursts also begin a transaction while the markers of their previous one are being written.
"""

from __future__ import annotations

from functools import partial

import trio

from pykbroker.sim.checkers import check
from pykbroker.sim.client import Again, SimConnection
from pykbroker.sim.consumer import SimConsumer, end_offset
from pykbroker.sim.groups.classic_member import ClassicSimMember
from pykbroker.sim.groups.offset_client import OffsetClient
from pykbroker.sim.groups.offsets import fetch_offsets
from pykbroker.sim.groups.ownership import check_ownership
from pykbroker.sim.history import Place, PollResult
from pykbroker.sim.log_workload import read_missing, unread
from pykbroker.sim.producer import SimProducer
from pykbroker.sim.stage import Stage
from pykbroker.sim.transactions.burst_writer import BurstWriter
from pykbroker.sim.transactions.checkers import check_copy, check_transactions
from pykbroker.sim.transactions.copier import Copier
from pykbroker.sim.transactions.history import Decision, TransactionHistory
from pykbroker.sim.transactions.producer import TRANSACTION_TIMEOUT_S, TransactionalProducer
from pykbroker.sim.transactions.writer import TransactionWriter
from pykbroker.sim.workload import PROGRESS_S_MAX
from wire.messages.create_topics import CreatableTopic
from wire.messages.find_coordinator import CoordinatorType

INPUT, OUTPUT, LEDGER, BURST = "input", "output", "ledger", "burst"
PARTITIONS = {INPUT: 2, OUTPUT: 2, LEDGER: 3, BURST: 6}
INPUTS, OUTPUTS, LEDGERS, BURSTS = (
    tuple((topic, index) for index in range(count)) for topic, count in PARTITIONS.items()
)
COPIERS, ACCOUNTS = "copiers", "accounts"
"""The group of the copiers, and a group without members."""
RIVALS = ((2, 2), (1, 1), (1, 2))
"""The transaction versions of the two producers of each transactional id."""
COPIER_VERSIONS = (1, 2)
BURST_WRITERS = 4
"""The number of writers of bursts. Their verifications wait for each other at the brokers of the coordinators."""
CONFIGS = {
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
ENDED_S_MAX = TRANSACTION_TIMEOUT_S + 10.0


class TransactionWorkload:
    """The workload of transactions: a feeder, copiers, writers and readers. It matches `workload.Workload`."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._history = stage, TransactionHistory(stage.unexpected)
        self._written: tuple[Place, ...] = (*OUTPUTS, *LEDGERS, *(BURSTS if stage.replicated else ()))
        history = self._history
        self._feeder = SimProducer(
            "feeder",
            stage.dialer("feeder"),
            history.logs,
            list(INPUTS),
            stage.wall_ms,
            idempotent=True,
            acks=-1,
            keyed=False,
        )
        self._copiers = [self._copier(f"copier-{number}", version) for number, version in enumerate(COPIER_VERSIONS)]
        self._writers = [
            self._writer(f"account-{number}", rival, version)
            for number, versions in enumerate(RIVALS)
            for rival, version in enumerate(versions)
        ]
        self._burst_writers = [
            self._burst_writer(f"burst-{n}") for n in range(BURST_WRITERS if stage.replicated else 0)
        ]
        self._readers = [
            SimConsumer(
                f"committed-{number}",
                stage.dialer(f"committed-{number}"),
                history.committed,
                list(self._written),
                committed=True,
            )
            for number in range(2)
        ]
        self._readers.append(SimConsumer("reader", stage.dialer("reader"), history.logs, [*INPUTS, *self._written]))
        self._accountant = OffsetClient(
            "accountant", ACCOUNTS, stage.dialers("accountant"), history.groups, LEDGERS, stable=True
        )
        self._settled_s = 0.0

    def _copier(self, name: str, version: int) -> Copier:
        dialer, history = self._stage.dialer(name), self._history
        member = ClassicSimMember(name, COPIERS, history.groups, INPUTS)
        producer = TransactionalProducer(name, name, dialer, history, self._stage, version=version)
        return Copier(producer, member, dialer, history, OUTPUTS)

    def _writer(self, transactional_id: str, rival: int, version: int) -> TransactionWriter:
        name = f"{transactional_id}-{rival}"
        dialer = self._stage.dialer(name)
        producer = TransactionalProducer(name, transactional_id, dialer, self._history, self._stage, version=version)
        return TransactionWriter(producer, dialer, LEDGERS, ACCOUNTS, self._stage.dice(f"{name} aborts"))

    def _burst_writer(self, name: str) -> BurstWriter:
        dialer = self._stage.dialer(name)
        producer = TransactionalProducer(name, name, dialer, self._history, self._stage, version=2)
        return BurstWriter(producer, dialer, BURSTS, self._history, self._stage.leader_epochs)

    @property
    def clients(self) -> list[str]:
        """Return the names of the clients' hosts."""
        return [
            self._feeder.name,
            self._accountant.name,
            *(each.producer.name for each in self._copiers),
            *(each.producer.name for each in self._writers),
            *(each.producer.name for each in self._burst_writers),
            *(each.name for each in self._readers),
        ]

    @property
    def _all_writers(self) -> list[TransactionWriter | BurstWriter]:
        return [*self._writers, *self._burst_writers]

    @property
    def topics(self) -> list[CreatableTopic]:
        """Return the topics: the input and the output of the copiers, and the topics of the writers."""
        return [
            CreatableTopic(name=topic, num_partitions=count, replication_factor=1)
            for topic, count in PARTITIONS.items()
            if topic != BURST or self._burst_writers
        ]

    def start(self, nursery: trio.Nursery) -> None:
        """Run the clients until the nursery is cancelled."""
        for reader in self._readers:
            nursery.start_soon(reader.run)
        nursery.start_soon(self._feeder.run)
        nursery.start_soon(self._accountant.run)
        for copier in self._copiers:
            nursery.start_soon(copier.run)
        for writer in self._all_writers:
            nursery.start_soon(writer.run)

    # ---- the end

    async def settle(self) -> list[str]:
        """Wait until all records are written and copied, and no transaction is undecided."""
        findings = []
        self._feeder.draining = True
        for copier in self._copiers:
            copier.calm = True
        for writer in self._all_writers:
            writer.draining = True
        with trio.move_on_after(PROGRESS_S_MAX):
            await self._feeder.done.wait()
            for writer in self._all_writers:
                await writer.done.wait()
        names = [self._feeder.name] if self._feeder.waits else []
        names += [writer.producer.name for writer in self._all_writers if not writer.done.is_set()]
        findings += [f"{name} has no answer {PROGRESS_S_MAX:.0f} s after the last fault" for name in names]
        with trio.move_on_after(PROGRESS_S_MAX) as late:
            await self._stage.until_answered(self._copied)
        if late.cancelled_caught:
            findings.append(f"not all is copied {PROGRESS_S_MAX:.0f} s after the last fault")
        with trio.move_on_after(ENDED_S_MAX) as late:
            await self._stage.until_answered(self._decided)
        if late.cancelled_caught:
            findings.append(f"a hanging transaction, {ENDED_S_MAX:.0f} s after all was calm")
        self._settled_s = trio.current_time()
        return findings

    async def _copied(self, connection: SimConnection) -> None:
        """Raise Again unless the copiers have committed the end of their input."""
        await connection.find_coordinator(COPIERS, CoordinatorType.GROUP)
        committed = await self._committed(connection)
        for place in INPUTS:
            if (end := await end_offset(connection, place, committed=False)) and committed.get(place) != end:
                raise Again(f"{place} is copied to {committed.get(place)} of {end}")

    async def _committed(self, connection: SimConnection) -> dict[Place, int]:
        return await fetch_offsets(connection, self._history.groups, "overseer", COPIERS, INPUTS, stable=True)

    async def _decided(self, connection: SimConnection) -> None:
        """Raise Again unless every last stable offset is the high watermark and all committed offsets are stable."""
        for place in self._written:
            stable = await end_offset(connection, place, committed=True)
            if stable < await end_offset(connection, place, committed=False):
                raise Again(f"{place} is stable to {stable}")
        await connection.find_coordinator(ACCOUNTS, CoordinatorType.GROUP)
        if set(await self._accounts(connection)) < set(LEDGERS):
            raise Again("some offsets are not stable")

    async def _accounts(self, connection: SimConnection) -> dict[Place, int]:
        return await fetch_offsets(connection, self._history.groups, "overseer", ACCOUNTS, LEDGERS, stable=True)

    async def judge(self) -> list[str]:
        """Read all partitions and committed offsets once more, and check the history."""
        everything: list[PollResult] = []
        final: list[PollResult] = []
        committed: dict[Place, int] = {}
        history = self._history
        with trio.move_on_after(PROGRESS_S_MAX):
            until_answered = self._stage.until_answered
            await until_answered(partial(read_missing, (*INPUTS, *self._written), everything, history.logs))
            await until_answered(partial(read_missing, self._written, final, history.committed, committed=True))
            await until_answered(partial(self._ask_all, committed))
        anomalies = [
            *check(history.logs, everything, replicated=self._stage.replicated),
            *check_transactions(history, final, self._settled_s),
            *check_ownership(history.groups),
            *check_copy(
                {poll.place: dict(poll.found) for poll in everything if poll.place in INPUTS},
                [value for poll in final if poll.place in OUTPUTS for _, value in poll.found],
                committed,
            ),
        ]
        return [
            *unread((*INPUTS, *self._written), everything),
            *unread(self._written, final),
            *(f"{each.kind} in {each.place}: {each.what}" for each in anomalies),
        ]

    async def _ask_all(self, committed: dict[Place, int], connection: SimConnection) -> None:
        await connection.find_coordinator(COPIERS, CoordinatorType.GROUP)
        committed |= await self._committed(connection)
        if set(committed) < set(INPUTS):
            raise Again("some offsets are not stable, or missing")
        await connection.find_coordinator(ACCOUNTS, CoordinatorType.GROUP)
        await self._accounts(connection)

    @property
    def acknowledged(self) -> int:
        """Return the number of acknowledged values in committed transactions."""
        return sum(len(each.values) for each in self._history.transactions if each.decision is Decision.COMMITTED)

    @property
    def read(self) -> int:
        """Return the number of committed values that were read. A value counts each time that it was read."""
        return sum(len(poll.found) for poll in self._history.committed.polls)
