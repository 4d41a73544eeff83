"""Members of a group that are interrupted in rebalances and at their end, in every face.

The listener hears of each partition before its first record and after its last one. Offsets are committed
automatically, never before their records were returned, and never back. So no record is lost or doubled over a
rebalance, and after the end no more than the last poll is repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from types import TracebackType
from typing import Any, NoReturn
from unittest.mock import patch

import pytest
import trio
from trio._core._run import GLOBAL_RUN_CONTEXT

from pykbroker.consumer import AsyncConsumer, Consumer, RebalanceListener
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.kafka import KafkaConsumer
from pykbroker.sim.scripted.cluster import ScriptedCluster
from tests.unit.client.interrupts import STRIDE, Interrupt, each_interrupt
from tests.unit.consumer.conftest import GROUP, Consuming
from tests.unit.producer.hosted import HostedNet
from wire.api import ApiKey
from wire.records.builder import BatchBuilder

FILES = ("pykbroker/consumer/", "pykbroker/core/consumer/", "pykbroker/kafka/", "pykbroker/world/background.py")
PLACES = [TopicPartition("topic", index) for index in range(3)]
BATCH, PATIENCE_S = 5, 30
FEW_BATCHES = 10
BATCHES = FEW_BATCHES + 2200 // STRIDE
"""The batches of each partition, which are more than a test of rebalances reads."""
SETTINGS: dict[str, Any] = {
    "group_id": GROUP,
    "auto_offset_reset": "earliest",
    "enable_auto_commit": True,
    "auto_commit_interval_ms": 1,
    "max_poll_records": 3,
    "heartbeat_interval_ms": 100,
    "session_timeout_ms": 6000,
}


def raise_keyboard_interrupt() -> NoReturn:
    raise KeyboardInterrupt


def raise_system_exit() -> NoReturn:
    raise SystemExit(3)


INTERRUPTS = (KeyboardInterrupt, SystemExit)


def fill(cluster: ScriptedCluster, batches: int = FEW_BATCHES) -> None:
    """Append records to all partitions, and make another topic without records."""
    cluster.state.add_topic("other", 1)
    for place in PLACES:
        for _ in range(batches):
            builder = BatchBuilder()
            for _ in range(BATCH):
                builder.append(None, b"value", (), 1)
            cluster.state.log(place).append(builder.build(), cluster.state.leader_epoch(place), None)


class Heard(RebalanceListener):
    """The partitions that a listener has heard of, the next offset of each that was returned, and the committed one."""

    def __init__(self, cluster: ScriptedCluster) -> None:
        self._topic = cluster.state.topics["topic"]
        self.owned: set[TopicPartition] = set()
        self.next = dict.fromkeys(PLACES, 0)
        self._committed: dict[TopicPartition, int] = {}
        self._gone_back: list[TopicPartition] = []
        cluster.script(ApiKey.OFFSET_COMMIT, self._watch_commit)

    async def _watch_commit(self, _node: Any, request: Any) -> None:
        for topic in request.topics:
            for each in topic.partitions if self._topic.topic_id == topic.topic_id else ():
                place = PLACES[each.partition_index]
                if each.committed_offset < self._committed.get(place, 0):
                    self._gone_back.append(place)
                self._committed[place] = each.committed_offset

    def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
        self.owned |= partitions

    def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
        self.owned -= partitions

    def note(self, records: Sequence[Any]) -> None:
        """Check records that a call has returned."""
        for record in records:
            place = TopicPartition(record.topic, record.partition)
            assert place in self.owned, f"the listener has not heard of {place}"
            assert record.offset == self.next[place], f"{place}: {record.offset} is returned, not {self.next[place]}"
            self.next[place] += 1

    def restart(self) -> None:
        """Go on as a new member, at the committed offsets."""
        self.owned.clear()
        self.next = dict.fromkeys(PLACES, 0) | self.committed()

    def committed(self) -> dict[TopicPartition, int]:
        """Return the committed offsets. Check that none has gone back, or is that of a record which is not returned."""
        assert not self._gone_back
        for place, offset in self._committed.items():
            assert offset <= self.next[place], f"{place}: {offset} is committed, and {self.next[place]} is next"
        return self._committed


class Member:
    """A member of one face. Coroutines of the drop-in never wait."""

    def __init__(self, face: Any, heard: Heard) -> None:
        self.face, self.heard = face, heard
        self._topics = ["topic"]

    async def subscribe(self) -> None:
        """Change the subscription, so that the group rebalances."""
        self._topics = ["topic"] if len(self._topics) == 2 else ["topic", "other"]
        self.face.subscribe(self._topics, listener=self.heard)

    async def poll(self) -> None:
        """Poll once."""
        if isinstance(self.face, Consumer):
            self.heard.note(await self.face.poll(PATIENCE_S))
            return
        if isinstance(self.face, AsyncConsumer):
            found = await self.face.getmany(timeout_ms=PATIENCE_S * 1000)
        else:
            found = self.face.poll(PATIENCE_S * 1000)
        for records in found.values():
            self.heard.note(records)

    async def settle(self, each: Interrupt) -> None:
        """Poll until the member has what it has subscribed to, and records."""
        count = len(PLACES) + len(self._topics) - 1
        while len(self.heard.owned) != count:
            await self.poll()
        await self.poll()
        assert self.heard.owned == set(self.assignment), each.at
        self.heard.committed()

    @property
    def assignment(self) -> Any:
        return self.face.assignment if isinstance(self.face, Consumer) else self.face.assignment()


# ---- the drop-in


def drive(call: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine that never waits."""
    with suppress(StopIteration):
        call.send(None)
        raise AssertionError("the drop-in waits in a coroutine")


@contextmanager
def drop_in(batches: int = FEW_BATCHES) -> Iterator[Member]:
    """Return a member, with the cluster in its loop."""
    net = HostedNet()
    with patch("pykbroker.consumer.hosted.system_client_world", net.world):
        consumer = KafkaConsumer(bootstrap_servers="node1:9092", **SETTINGS)
    net.wait_running()
    fill(net.cluster, batches)
    try:
        yield Member(consumer, Heard(net.cluster))
    finally:
        consumer.close()


def test_a_rebalance_of_the_drop_in() -> None:
    async def rebalance(member: Member) -> None:
        for each in each_interrupt((raise_keyboard_interrupt, raise_system_exit), *FILES):
            await member.subscribe()
            try:
                with each:
                    await member.poll()
            except INTERRUPTS:
                assert each.at is not None
            await member.settle(each)

    with drop_in(BATCHES) as member:
        drive(rebalance(member))


def test_the_end_of_the_drop_in() -> None:
    for each in each_interrupt((raise_keyboard_interrupt, raise_system_exit), *FILES):
        with drop_in() as member:
            drive(member.subscribe())
            drive(member.settle(each))
            try:
                with each:
                    member.face.close()
                assert member.heard.committed() == member.heard.next
                assert not member.heard.owned
            except INTERRUPTS:
                assert each.at is not None
            member.face.close()
            assert member.face._hosted.loop.join(PATIENCE_S), f"{each.at}: the thread has not ended"
        member.heard.committed()


# ---- asyncio


def cancellation() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


ASYNC_ACTS = (raise_keyboard_interrupt, raise_system_exit, cancellation)


async def async_member(batches: int = FEW_BATCHES) -> Member:
    """Return a member, with the cluster in its loop."""
    net = HostedNet()
    consumer = AsyncConsumer(world=net.world(), bootstrap_servers="node1:9092", **SETTINGS)
    await consumer.start()
    net.wait_running()
    fill(net.cluster, batches)
    return Member(consumer, Heard(net.cluster))


async def attempt(call: Callable[[], Awaitable[Any]], each: Interrupt) -> bool:
    """Make a call that is interrupted. Return whether it has returned."""
    has_returned = False
    try:
        with each:
            await call()
        has_returned = True
        await asyncio.sleep(0)  # a cancellation that the call has not met
    except (*INTERRUPTS, asyncio.CancelledError):
        assert each.at is not None
    return has_returned


def test_a_rebalance_on_asyncio() -> None:
    async def main() -> None:
        member = await async_member(BATCHES)
        for each in each_interrupt(ASYNC_ACTS, *FILES):
            await member.subscribe()
            await attempt(member.poll, each)
            await member.settle(each)
        await member.face.stop()

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_the_end_on_asyncio() -> None:
    async def main() -> None:
        for each in each_interrupt(ASYNC_ACTS, *FILES):
            member = await async_member()
            await member.subscribe()
            await member.settle(each)
            if await attempt(member.face.stop, each):
                assert member.heard.committed() == member.heard.next
                assert not member.heard.owned
            await member.face.stop()
            assert member.face._hosted.loop.join(PATIENCE_S), f"{each.at}: the thread has not ended"
            member.heard.committed()

    asyncio.run(main())


# ---- trio


class TrioInterrupts:
    """The interrupts of the task of a test, which trio does not give SIGINT."""

    def __init__(self) -> None:
        self._task = trio.lowlevel.current_task()
        self.scope = trio.CancelScope()

    def places(self, *acts: Callable[[], Any]) -> Iterator[Interrupt]:
        return each_interrupt(acts, *FILES, stride=5 * STRIDE - 4, counts=self._is_in_task)

    def _is_in_task(self) -> bool:
        return getattr(GLOBAL_RUN_CONTEXT, "task", None) is self._task

    def cancel(self) -> None:
        self.scope.cancel()

    def keyboard_interrupt(self) -> None:
        """Do what trio does after SIGINT: raise an error at once in code of the user, else when the task waits."""
        if not trio.lowlevel.currently_ki_protected():
            raise KeyboardInterrupt
        self.scope.cancel()


async def test_a_rebalance_on_trio(autojump_clock, consuming: Consuming) -> None:
    fill(consuming.cluster, BATCHES)
    heard, interrupts = Heard(consuming.cluster), TrioInterrupts()
    places = interrupts.places(interrupts.keyboard_interrupt, interrupts.cancel, raise_system_exit)
    is_over = False
    while not is_over:
        with suppress(SystemExit):  # which leaves the block of the consumer, as in a program
            async with consuming.consumer(**SETTINGS) as consumer:
                member = Member(consumer, heard)
                heard.restart()
                for each in places:
                    await member.subscribe()
                    with trio.CancelScope() as interrupts.scope, suppress(KeyboardInterrupt), each:
                        await member.poll()
                    await member.settle(each)
                is_over = True


@pytest.mark.parametrize("name", ["aclose", "__aexit__"])
async def test_the_end_on_trio(autojump_clock, consuming: Consuming, name: str) -> None:
    fill(consuming.cluster, BATCHES)
    heard, interrupts = Heard(consuming.cluster), TrioInterrupts()
    acts = [interrupts.keyboard_interrupt, interrupts.cancel]
    if name == "aclose":  # SystemExit in __aexit__ before the wait for trio's nursery leaves the nursery open
        acts.append(raise_system_exit)
    for each in interrupts.places(*acts):
        has_returned = False
        with trio.CancelScope() as interrupts.scope, suppress(*INTERRUPTS):
            async with interrupted_end(consuming.consumer(**SETTINGS), each, name) as consumer:
                heard.restart()
                member = Member(consumer, heard)
                await member.subscribe()
                await member.settle(each)
            has_returned = True
        found = heard.committed()
        if has_returned and not interrupts.scope.cancel_called:
            assert (found, heard.owned) == (heard.next, set()), each.at


@asynccontextmanager
async def interrupted_end(consumer: Consumer, each: Interrupt, name: str) -> AsyncIterator[Consumer]:
    """Open a consumer for a block, and interrupt its end."""
    async with consumer if name == "aclose" else EndedWith(consumer, each):
        yield consumer
        if name == "aclose":
            with each:
                await consumer.aclose()


class EndedWith:
    """The block of a consumer, whose end is interrupted unless the block fails."""

    def __init__(self, consumer: Consumer, each: Interrupt) -> None:
        self._consumer, self._each = consumer, each

    async def __aenter__(self) -> None:
        await self._consumer.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._each if error is None else nullcontext():
            await self._consumer.__aexit__(kind, error, trace)
