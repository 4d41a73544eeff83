"""Calls of the producer that are interrupted at each place of their code, in every face.

After each interrupt the producer goes on: nothing that it has acknowledged is lost, nothing is written twice, no lock
is taken, no memory is missing, and no call hangs.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from random import Random
from typing import Any, NoReturn
from unittest.mock import patch

import pytest
import trio
import trio.testing

from pykbroker.core.producer.batch import ProducerBatch
from pykbroker.core.producer.errors import IllegalCall
from pykbroker.core.producer.transactions.manager import TransactionManager
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.kafka.errors import IllegalStateError
from pykbroker.kafka.producer import KafkaProducer
from pykbroker.producer.async_producer import AsyncProducer
from pykbroker.producer.delivery import RowsFailed
from pykbroker.producer.producer import Producer
from pykbroker.producer.shell import ProducerShell
from pykbroker.producer.threaded import ThreadedProducer
from pykbroker.sim.scripted.cluster import ScriptedCluster
from pykbroker.world.client_world import ClientWorld
from tests.unit.client.interrupts import Interrupt, each_interrupt
from tests.unit.client.loopback import LoopbackNet
from tests.unit.producer.hosted import SETTINGS, WAIT_S, Call, HostedNet, threaded, wait_until
from wire.api import ApiKey

CLIENT = tuple(f"pykbroker/{each}/" for each in ("producer", "core/producer", "client", "kafka", "world"))
PRODUCER = CLIENT[:2]
WAITING = tuple(
    f"pykbroker/{each}.py"
    for each in ("producer/appending", "producer/threaded", "producer/producer", "core/producer/buffer_pool")
)
"""The code that lets a record wait."""
SMALL = {"batch_size": 1000, "buffer_memory": 2000, "max_block_ms": WAIT_S * 1000}
"""The settings of a producer whose memory is full after two batches."""


Sent = tuple[list[bytes | None], Any]
"""The values of a call that has returned, and their delivery."""


class Quit(Exception):
    """The error of a signal handler of the user."""


def fail() -> NoReturn:
    raise next(ERRORS)


ERRORS = itertools.cycle((KeyboardInterrupt, SystemExit, Quit))
"""The errors of the places of a call, one after the other, since no code distinguishes them."""


class SyncFace:
    """A producer for threads or the drop-in, and the calls that are interrupted."""

    def __init__(self, net: HostedNet, producer: ThreadedProducer, drop_in: KafkaProducer | None = None) -> None:
        self.net, self.producer, self.drop_in = net, producer, drop_in
        self.numbers = itertools.count()
        self.sent: list[Sent] = []

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
        values = [self.value() for _ in range(3)]
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


@pytest.fixture(params=["threads", "drop-in"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def interrupt_all(
    face: SyncFace, call: Callable[[], Any], before: Callable[[], None] = lambda: None, files: tuple[str, ...] = CLIENT
) -> Iterator[None]:
    """Interrupt a call at each of its places, and check the producer after each. Yield before that."""
    for each in each_interrupt(fail, *files):
        before()
        try:
            with each:
                sent = call()
        except (KeyboardInterrupt, SystemExit, Quit):
            assert each.at is not None
        else:
            face.sent += [sent] if sent is not None else []
        yield
        face.check(each)


class TestThreads:
    """A producer for threads, and the drop-in for kafka-python."""

    @pytest.mark.parametrize("key", [None, b"key"])
    def test_send(self, kind: str, key: bytes | None) -> None:
        with sync_face(kind) as face:
            for _ in interrupt_all(face, partial(face.send, 1 if key else None, key)):
                face.sent.append(face.send())
                face.check_sent()

    def test_send_to_an_open_batch(self, kind: str) -> None:
        with sync_face(kind, linger_ms=100_000) as face:
            for _ in interrupt_all(face, partial(face.send, 0, b"key"), lambda: face.sent.append(face.send(0))):
                pass

    def test_send_many(self, kind: str) -> None:
        with sync_face(kind) as face:
            for _ in interrupt_all(face, face.send_many):
                pass

    def test_send_in_line_for_memory(self, kind: str) -> None:
        with sync_face(kind, **SMALL) as face:
            releases: list[tuple[Call, threading.Event]] = []

            def fill() -> None:
                face.flush()
                face.net.hold(ApiKey.PRODUCE)
                face.sent += [face.send(0), face.send(1)]
                is_over = threading.Event()
                releases.append((Call(release_when, face, is_over), is_over))

            for _ in interrupt_all(face, partial(face.send, 2), fill, WAITING):
                release, is_over = releases.pop()
                is_over.set()
                release.join()
                face.flush()

    def test_flush(self, kind: str) -> None:
        with sync_face(kind, linger_ms=100_000) as face:
            for _ in interrupt_all(face, face.flush, lambda: face.sent.append(face.send())):
                pass

    def test_close(self, kind: str) -> None:
        for each in each_interrupt(fail, *CLIENT):
            with sync_face(kind) as face:
                close = face.drop_in.close if face.drop_in is not None else face.producer.close
                face.send()
                try:
                    with each:
                        close()
                except (KeyboardInterrupt, SystemExit, Quit):
                    assert each.at is not None
                assert not face.producer.lock.is_mine, each.at
                Call(close).join()


def release_when(face: SyncFace, is_over: threading.Event) -> None:
    """Answer the requests that are held, once a call stands in line or has ended."""
    wait_until(lambda: is_over.is_set() or face.producer.shell.pool.waiting)
    face.net.release()


# ---- trio


class TrioFace:
    """A producer for trio with its cluster, in one loop with a virtual clock."""

    def __init__(self, cluster: ScriptedCluster, producer: Producer) -> None:
        self.cluster, self.producer = cluster, producer
        self.numbers = itertools.count()
        self.sent: list[Sent] = []

    async def send(self, partition: int | None = None, key: bytes | None = None) -> Any:
        value = b"%d" % next(self.numbers)
        headers = [("name", b"content")] if key else ()
        return [value], await self.producer.send("topic", value, key, partition=partition, headers=headers)

    async def send_many(self) -> Any:
        values = [b"%d" % next(self.numbers) for _ in range(3)]
        return values, await self.producer.send_many("topic", values, [b"key", None, None])

    async def flush(self) -> None:
        await self.producer.flush()

    async def check(self, each: Interrupt) -> None:
        """Check that the producer is whole and goes on."""
        check_memory(self.producer._shell, each)
        self.sent.append(await self.send())


def run_trio(test: Callable[[TrioFace], Awaitable[None]], **settings: Any) -> None:
    """Run a test in the main task of a loop, which gets KeyboardInterrupt. Then check the topic."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            net = LoopbackNet()
            cluster = ScriptedCluster(lambda _host: net, Random(1), nursery)
            cluster.state.auto_creates = False
            cluster.state.add_topic("topic", 3)
            cluster.start()
            world = ClientWorld(net, lambda: 1_700_000_000_000, lambda: int(trio.current_time() * 1e9), Random(5))
            async with Producer(world=world, **SETTINGS | settings) as producer:
                face = TrioFace(cluster, producer)
                await producer.partitions_for("topic")
                await test(face)
            check_topic(cluster, face.sent)
            nursery.cancel_scope.cancel()

    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores SIGINT
    try:
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    finally:
        signal.signal(signal.SIGINT, earlier)


def handle_sigint() -> None:
    """Call the handler of SIGINT, which is trio's, as Python would after a signal."""
    handler = signal.getsignal(signal.SIGINT)
    assert callable(handler)
    handler(signal.SIGINT, sys._getframe())


async def interrupt_all_in_trio(
    face: TrioFace, call: Callable[[], Awaitable[Any]], files: tuple[str, ...] = PRODUCER
) -> None:
    """Send SIGINT at each place of a call. trio delivers it when the call waits, or after the call."""
    for each in each_interrupt(handle_sigint, *files):
        try:
            with each:
                sent = await call()
            face.sent += [sent] if sent is not None else []
            await trio.lowlevel.checkpoint()
            assert each.at is None, f"{each.at}: no KeyboardInterrupt"
        except KeyboardInterrupt:
            assert each.at is not None
        await face.check(each)


async def cancel_all_in_trio(
    face: TrioFace, call: Callable[[], Awaitable[Any]], files: tuple[str, ...] = WAITING
) -> None:
    """Cancel a call at each of its places."""
    scopes: list[trio.CancelScope] = []
    for each in each_interrupt(lambda: scopes[-1].cancel(), *files):
        scopes.append(trio.CancelScope())
        with scopes[-1], each:
            sent = await call()
            face.sent += [sent] if sent is not None else []
        await face.check(each)


@pytest.mark.parametrize("interrupt_each", [interrupt_all_in_trio, cancel_all_in_trio])
class TestTrio:
    """A producer for trio."""

    @pytest.mark.parametrize("key", [None, b"key"])
    def test_send(self, interrupt_each: Any, key: bytes | None) -> None:
        run_trio(lambda face: interrupt_each(face, partial(face.send, 1 if key else None, key)))

    def test_send_many(self, interrupt_each: Any) -> None:
        run_trio(lambda face: interrupt_each(face, face.send_many, WAITING))

    def test_flush(self, interrupt_each: Any) -> None:
        async def test(face: TrioFace) -> None:
            async def send_and_flush() -> None:
                face.sent.append(await face.send())
                await face.flush()

            await interrupt_each(face, send_and_flush, (*WAITING, "pykbroker/producer/shell.py"))

        run_trio(test, linger_ms=1000)


# ---- asyncio


class AsyncFace:
    """A producer for asyncio."""

    def __init__(self, net: HostedNet, producer: AsyncProducer) -> None:
        self.net, self.producer = net, producer
        self.numbers = itertools.count()
        self.sent: list[Sent] = []

    async def send(self, partition: int | None = None, key: bytes | None = None) -> Any:
        value = b"%d" % next(self.numbers)
        return [value], await self.producer.send("topic", value, key, partition)

    async def send_many(self) -> Any:
        values = [b"%d" % next(self.numbers) for _ in range(2)]
        return values, await self.producer.send_many("topic", values, [b"key", None])

    async def flush(self) -> None:
        self.sent.append(await self.send())
        await self.producer.flush()

    async def begin(self) -> None:
        await self.producer.begin_transaction()

    async def check(self, each: Interrupt) -> None:
        """Check that the producer is whole and goes on."""
        assert not self.producer._running.lock.is_mine, each.at
        check_memory(self.producer._running.shell, each)
        self.sent.append(await self.send())


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


async def interrupt_all_in_asyncio(face: AsyncFace, call: Callable[[], Awaitable[Any]]) -> None:
    """Let a signal handler raise at each place of a call."""
    for each in each_interrupt(fail, *PRODUCER):
        try:
            with each:
                sent = await call()
        except (KeyboardInterrupt, SystemExit, Quit):
            assert each.at is not None
        else:
            face.sent += [sent] if sent is not None else []
        await face.check(each)


async def cancel_all_in_asyncio(face: AsyncFace, call: Callable[[], Awaitable[Any]]) -> None:
    """Cancel the task of a call at each of its places."""
    tasks: list[asyncio.Task[None]] = []

    async def run(each: Interrupt) -> None:
        with each:
            sent = await call()
        face.sent += [sent] if sent is not None else []

    for each in each_interrupt(lambda: tasks[-1].cancel(), *PRODUCER):
        tasks.append(asyncio.create_task(run(each)))
        await asyncio.gather(tasks[-1], return_exceptions=True)
        await face.check(each)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("interrupt_each", [interrupt_all_in_asyncio, cancel_all_in_asyncio])
@pytest.mark.parametrize("call", [AsyncFace.send, AsyncFace.send_many, AsyncFace.flush])
def test_a_producer_for_asyncio(interrupt_each: Any, call: Any) -> None:
    run_asyncio(lambda face: interrupt_each(face, partial(call, face)))


# ---- transactions


class TestTransactions:
    """Transactions that are interrupted: what was committed is there once, and the next transaction works."""

    @pytest.mark.parametrize("name", ["begin", "commit", "abort"])
    def test_threads(self, kind: str, name: str) -> None:
        with sync_face(kind, transactional_id="t") as face:
            face.producer.call(TransactionManager.init)
            for each in each_interrupt(fail, *CLIENT):
                transact(face, each, name)
                assert not face.producer.lock.is_mine, each.at
                check_memory(face.producer.shell, each)
            face.producer.begin_transaction()
            face.send()


def transact(face: SyncFace, each: Interrupt, name: str) -> None:
    """Interrupt one call of a transaction, and end the transaction otherwise."""
    calls: dict[str, Callable[[], None]] = {
        "begin": face.producer.begin_transaction,
        "commit": partial(face.producer.call, TransactionManager.commit),
        "abort": partial(face.producer.call, TransactionManager.abort),
    }
    if face.drop_in is not None:
        calls = {key: getattr(face.drop_in, f"{key}_transaction") for key in calls}

    def run(step: str) -> None:
        if step != name:
            calls[step]()
            return
        with each:
            calls[step]()

    try:
        run("begin")
        sent = face.send()
        run(name if name != "begin" else "commit")
        if name != "abort":
            face.sent.append(sent)
    except (KeyboardInterrupt, SystemExit, Quit):
        assert each.at is not None
        for step in ("commit", "abort") if name == "commit" else ("abort",):
            with suppress(IllegalCall, IllegalStateError):  # the transaction has not begun, or has ended
                calls[step]()
