"""Producers of every face with a cluster, whose calls are interrupted, and the checks of what is left."""

from __future__ import annotations

import asyncio
import itertools
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from random import Random
from typing import Any, NoReturn
from unittest.mock import patch

import trio
import trio.testing

from pykbroker.core.producer.batch import ProducerBatch
from pykbroker.core.producer.errors import ProducerClosed, TransactionError
from pykbroker.core.producer.transactions.manager import TransactionManager
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.kafka.producer import KafkaProducer
from pykbroker.producer.async_producer import AsyncProducer
from pykbroker.producer.delivery import RowsFailed
from pykbroker.producer.producer import Producer
from pykbroker.producer.shell import ProducerShell
from pykbroker.producer.threaded import ThreadedProducer
from pykbroker.sim.scripted.cluster import ScriptedCluster
from pykbroker.world.client_world import ClientWorld
from tests.unit.client.interrupts import Interrupt
from tests.unit.client.loopback import LoopbackNet
from tests.unit.producer.hosted import SETTINGS, WAIT_S, Call, HostedNet, threaded

CLIENT = tuple(f"pykbroker/{each}/" for each in ("producer", "core/producer", "client", "kafka", "world"))
PRODUCER = CLIENT[:2]
WAITING = tuple(
    f"pykbroker/{each}.py"
    for each in ("producer/appending", "producer/threaded", "producer/producer", "core/producer/buffer_pool")
)
"""The code that lets a record wait."""
SMALL = {"batch_size": 1000, "buffer_memory": 2000, "max_block_ms": WAIT_S * 1000}
"""The settings of a producer whose memory is full after two batches."""
LARGE_ROW_BYTES = 60_000
"""The bytes of a row that makes the share of each of three partitions larger than a batch has by default."""

Sent = tuple[list[bytes | None], Any]
"""The values of a call that has returned, and their delivery."""


class Quit(Exception):
    """The error of a signal handler of the user."""


def raise_keyboard_interrupt() -> NoReturn:
    raise KeyboardInterrupt


def raise_system_exit() -> NoReturn:
    raise SystemExit


def raise_quit() -> NoReturn:
    raise Quit


RAISED = (KeyboardInterrupt, SystemExit, Quit)
ERRORS = (raise_keyboard_interrupt, raise_system_exit, raise_quit)


def handle_sigint() -> None:
    """Call the handler of SIGINT, which is trio's, as Python would after a signal."""
    handler = signal.getsignal(signal.SIGINT)
    assert callable(handler)
    handler(signal.SIGINT, sys._getframe())


# ---- checks


def check_topic(cluster: ScriptedCluster, sent: list[Sent]) -> None:
    """Check that no value is in the topic twice, and each acknowledged one is there. All calls have an outcome.

    An interrupted append of columns returns a delivery that names the rows which are missing.
    """
    logs = [cluster.state.log(TopicPartition("topic", index)) for index in range(3)]
    written = Counter(record.value for log in logs for record in log.records)
    assert max(written.values(), default=1) == 1
    for values, delivery in sent:
        delivery = getattr(delivery, "_delivery", delivery)
        try:
            offsets = delivery.result().offsets if len(values) > 1 else [delivery.result().offset]
        except RowsFailed as failed:
            assert {type(error) for error in failed.errors.values()} == {Quit}
            offsets = failed.offsets
        assert {value for value, offset in zip(values, offsets, strict=True) if offset >= 0} <= written.keys()


def check_memory(shell: ProducerShell, each: Interrupt) -> None:
    """Check that the batches have all memory that is taken, and none is empty."""
    with shell.lock:
        pool, incomplete = shell.pool, shell.accumulator.incomplete
        assert (pool.available_bytes + incomplete.reserved(), pool.waiting) == (pool.bytes_max, 0), each.at
        assert all(batch.count for batch in incomplete.batches()), each.at


def batch_of(delivery: Any) -> ProducerBatch:
    """Return the batch of a record in any face."""
    found = getattr(delivery, "_delivery", delivery).batch
    assert isinstance(found, ProducerBatch)
    return found


# ---- threads, and the drop-in for kafka-python


class SyncFace:
    """A producer for threads or the drop-in, and the calls that are interrupted. Coroutines never wait."""

    acts = ERRORS

    def __init__(self, net: HostedNet, producer: ThreadedProducer, drop_in: KafkaProducer | None = None) -> None:
        self.net, self.producer, self.drop_in = net, producer, drop_in
        self.numbers = itertools.count()
        self.sent: list[Sent] = []

    @property
    def cluster(self) -> ScriptedCluster:
        return self.net.cluster

    @property
    def shell(self) -> ProducerShell:
        return self.producer.shell

    def value(self) -> bytes:
        return b"%d" % next(self.numbers)

    def send(self, partition: int | None = None, key: bytes | None = None) -> Any:
        headers = [("name", b"content")] if key else []
        value = self.value()
        if self.drop_in is not None:
            return [value], self.drop_in.send("topic", value, key, headers or None, partition)
        sent = self.producer.try_send("topic", value, key, partition, headers, None)
        return [value], self.producer.append_waiting(sent) if isinstance(sent, tuple) else sent

    def send_many(self) -> Any:
        values = [self.value(), self.value(), self.value().ljust(LARGE_ROW_BYTES)]
        face = self.drop_in or self.producer
        return values, face.send_many("topic", values, [b"key", None, None])

    def flush(self) -> None:
        assert self.drop_in or self.producer.flush(WAIT_S)
        if self.drop_in is not None:
            self.drop_in.flush(WAIT_S)

    def check(self, each: Interrupt) -> None:
        """Check that the producer is whole and goes on."""
        assert not self.producer.lock.is_mine, each.at
        check_memory(self.producer.shell, each)
        self.sent.append(self.send())

    def check_sent(self) -> None:
        """Check that the newest record is written, without a flush."""
        assert self.producer.wait_settled(batch_of(self.sent[-1][1]), WAIT_S)

    # ---- calls as coroutines

    async def put(self) -> Any:
        return self.send()

    async def init(self) -> None:
        self.producer.call(TransactionManager.init)

    async def begin(self) -> None:
        (self.drop_in or self.producer).begin_transaction()

    async def commit(self) -> None:
        if self.drop_in is not None:
            self.drop_in.commit_transaction()
        else:
            self.producer.call(TransactionManager.commit)

    async def abort(self) -> None:
        if self.drop_in is not None:
            self.drop_in.abort_transaction()
        else:
            self.producer.call(TransactionManager.abort)

    async def attempt(self, call: Callable[[], Awaitable[Any]], each: Interrupt) -> bool:
        """Make a call that is interrupted. Return whether it has returned, or has been interrupted as it returned."""
        try:
            with each:
                await call()
        except RAISED:
            assert each.at is not None
            assert not self.producer.lock.is_mine, each.at
            return False
        return True


def drive(call: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits."""
    try:
        call.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a call of a face for threads waits in a coroutine")


@contextmanager
def sync_face(kind: str, **settings: Any) -> Iterator[SyncFace]:
    """Return a face for threads, with the cluster in its loop."""
    net = HostedNet()
    if kind == "threads":
        face = SyncFace(net, threaded(net, **settings))
    else:
        with patch("pykbroker.producer.threaded.system_client_world", net.world):
            drop_in = KafkaProducer(**SETTINGS | settings)
        net.wait_running()
        face = SyncFace(net, drop_in._producer, drop_in)
    face.producer.partitions_for("topic")
    try:
        yield face
    finally:
        Call(face.producer.close).join()
    check_topic(face.net.cluster, face.sent)


# ---- trio


async def nothing() -> None:
    """Do nothing before a call."""


class AwaitedFace:
    """The calls that a producer for trio and one for asyncio share."""

    producer: Any
    sent: list[Sent]

    send: Callable[..., Awaitable[Any]]

    async def flush(self) -> None:
        self.sent.append(await self.send())
        await self.producer.flush()

    async def begin(self) -> None:
        await self.producer.begin_transaction()

    async def commit(self) -> None:
        await self.producer.commit_transaction()

    async def abort(self) -> None:
        await self.producer.abort_transaction()


class TrioFace(AwaitedFace):
    """A producer for trio with its cluster, in one loop with a virtual clock."""

    def __init__(
        self, net: LoopbackNet, cluster: ScriptedCluster, producer: Producer, settings: dict[str, Any]
    ) -> None:
        self.net, self.cluster, self.producer, self._settings = net, cluster, producer, settings
        self.numbers = itertools.count()
        self.sent: list[Sent] = []
        self._scope, self._task = trio.CancelScope(), trio.lowlevel.current_task()
        self.acts = (handle_sigint, self.cancel)

    @property
    def shell(self) -> ProducerShell:
        return self.producer._shell

    def cancel(self) -> None:
        """Cancel the call that is made."""
        self._scope.cancel()

    def has_task(self) -> bool:
        """Whether a task of the test or of a client runs. SystemExit in what a task of trio itself calls ends trio."""
        task = trio.lowlevel.current_task()
        assert task.parent_nursery is not None
        return task is self._task or task.parent_nursery.parent_task is not trio.lowlevel.current_root_task()

    async def send(self, partition: int | None = None, key: bytes | None = None) -> Any:
        value = b"%d" % next(self.numbers)
        headers = [("name", b"content")] if key else ()
        return [value], await self.producer.send("topic", value, key, partition=partition, headers=headers)

    async def put(self) -> Any:
        return await self.send()

    async def send_many(self) -> Any:
        values = [b"%d" % next(self.numbers) for _ in range(2)]
        values.append((b"%d" % next(self.numbers)).ljust(LARGE_ROW_BYTES))
        return values, await self.producer.send_many("topic", values, [b"key", None, None])

    async def check(self, each: Interrupt) -> None:
        """Check that the producer is whole and goes on."""
        check_memory(self.shell, each)
        self.sent.append(await self.send())

    async def attempt(
        self, call: Callable[[], Awaitable[Any]], each: Interrupt, before: Callable[[], Awaitable[Any]] = nothing
    ) -> bool:
        """Make a call that gets SIGINT or is cancelled, in a scope with `before`. Return whether it has returned.

        trio delivers SIGINT when the call waits, or after the call.
        """
        has_returned = False
        with trio.CancelScope() as self._scope:
            await before()
            try:
                with each:
                    found = await call()
                has_returned = True
                self.sent += [found] if found is not None else []
                await trio.lowlevel.checkpoint()
                assert each.at is None, f"{each.at}: no KeyboardInterrupt"
            except KeyboardInterrupt:
                assert each.at is not None
        return has_returned

    @asynccontextmanager
    async def program(self, each: Interrupt, **settings: Any) -> AsyncIterator[None]:
        """Run a block with a producer of its own, which SystemExit ends. Check what it leaves.

        Records fail only if SystemExit ends a task of the producer, or leaves its requests half sent.
        """
        earlier, self.sent = self.sent, []
        self.producer = trio_producer(self.net, **self._settings | settings)
        try:
            async with self.producer:
                yield
        except SystemExit:
            assert each.at is not None
        else:
            assert each.at is None, f"{each.at}: no SystemExit"
        check_memory(self.shell, each)
        assert all(batch.is_settled for batch in self.shell.accumulator.incomplete.batches()), each.at
        for values, delivery in self.sent:
            assert delivery.is_done, each.at
            with suppress(ProducerClosed, TransactionError, RowsFailed):
                delivery.result()
                earlier.append((values, delivery))
        self.sent = earlier


def run_trio(test: Callable[[TrioFace], Awaitable[None]], **settings: Any) -> None:
    """Run a test in the main task of a loop, which gets KeyboardInterrupt. Then check the topic."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            net = LoopbackNet()
            cluster = ScriptedCluster(lambda _host: net, Random(1), nursery)
            cluster.state.auto_creates = False
            cluster.state.add_topic("topic", 3)
            cluster.start()
            async with trio_producer(net, **settings) as producer:
                face = TrioFace(net, cluster, producer, settings)
                await producer.partitions_for("topic")
                await test(face)
            check_topic(cluster, face.sent)
            nursery.cancel_scope.cancel()

    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores SIGINT
    try:
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    finally:
        signal.signal(signal.SIGINT, earlier)


def trio_producer(net: LoopbackNet, **settings: Any) -> Producer:
    """Return a producer with a virtual clock."""
    world = ClientWorld(net, lambda: 1_700_000_000_000, lambda: int(trio.current_time() * 1e9), Random(5))
    return Producer(world=world, **SETTINGS | settings)


# ---- asyncio


class AsyncFace(AwaitedFace):
    """A producer for asyncio."""

    def __init__(self, net: HostedNet, producer: AsyncProducer) -> None:
        self.net, self.producer = net, producer
        self.numbers = itertools.count()
        self.sent: list[Sent] = []
        self._task: asyncio.Task[Any] | None = None
        self.acts = (*ERRORS, self.cancel)

    @property
    def cluster(self) -> ScriptedCluster:
        return self.net.cluster

    @property
    def shell(self) -> ProducerShell:
        return self.producer._running.shell

    def cancel(self) -> None:
        """Cancel the call that is made."""
        assert self._task is not None
        self._task.cancel()

    async def send(self, partition: int | None = None, key: bytes | None = None) -> Any:
        value = b"%d" % next(self.numbers)
        return [value], await self.producer.send("topic", value, key, partition)

    async def put(self) -> Any:
        return await self.send()

    async def send_many(self) -> Any:
        values = [b"%d" % next(self.numbers) for _ in range(2)]
        return values, await self.producer.send_many("topic", values, [b"key", None])

    async def check(self, each: Interrupt) -> None:
        """Check that the producer is whole and goes on."""
        assert not self.producer._running.lock.is_mine, each.at
        check_memory(self.shell, each)
        self.sent.append(await self.send())

    async def attempt(self, call: Callable[[], Awaitable[Any]], each: Interrupt) -> bool:
        """Make a call in which a signal handler raises, or whose task is cancelled. Return whether it has returned."""
        has_returned = False

        async def run() -> None:
            nonlocal has_returned
            with each:
                found = await call()
            has_returned = True
            self.sent += [found] if found is not None else []

        if each.act not in ERRORS:
            self._task = asyncio.create_task(run())
            await asyncio.wait([self._task])
            assert self._task.cancelled() or not self._task.exception()
            return has_returned
        try:  # the loop would end with an error of a task
            await run()
        except RAISED:
            assert each.at is not None
        return has_returned


def run_asyncio(test: Callable[[AsyncFace], Awaitable[None]], **settings: Any) -> None:
    """Run a test in the main task of a loop, and check the topic."""

    async def main() -> None:
        net = HostedNet()
        async with AsyncProducer(world=net.world(), **SETTINGS | settings) as producer:
            net.wait_running()
            await producer.partitions_for("topic")
            face = AsyncFace(net, producer)
            await asyncio.wait_for(test(face), 6 * WAIT_S)
        check_topic(net.cluster, face.sent)

    asyncio.run(main())
