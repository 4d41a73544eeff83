"""The producer for asyncio: cancelled waits, the end of the block, and the end of the event loop."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import trio

from pykbroker.core.producer.errors import ProducerClosed
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.producer import AsyncProducer
from tests.unit.producer.hosted import SETTINGS, WAIT_S, HostedNet, wait_until
from wire.api import ApiKey


def run(test: Callable[..., Coroutine[Any, Any, None]], **settings: Any) -> None:
    """Run a test with a producer and its cluster."""

    async def main() -> None:
        net = HostedNet()
        async with AsyncProducer(world=net.world(), **SETTINGS | settings) as producer:
            net.wait_running()
            await asyncio.wait_for(test(net, producer), WAIT_S)

    asyncio.run(main())


async def until(condition: Callable[[], Any]) -> None:
    """Wait until a condition holds that another thread makes true."""
    await asyncio.to_thread(wait_until, condition)


async def fill(net: HostedNet, producer: AsyncProducer) -> asyncio.Task[Any]:
    """Fill the memory with records that are not sent, and return a task that waits for more."""
    shell = producer._running.shell
    await producer.partitions_for("topic")
    net.cluster.script(ApiKey.PRODUCE, silent)
    while shell.pool.available_bytes:
        await producer.send("topic", b"x" * 100, partition=0)
    waiting = asyncio.create_task(producer.send("topic", b"x" * 100, partition=0))
    await until(lambda: shell.pool.waiting)
    return waiting


async def silent(_node: Any, _request: Any) -> None:
    """Let a node never answer a request."""
    await trio.sleep_forever()


SMALL = {"batch_size": 200, "buffer_memory": 400}


def test_a_cancelled_wait_for_memory_leaves_the_line() -> None:
    async def test(net: HostedNet, producer: AsyncProducer) -> None:
        waiting = await fill(net, producer)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        shell = producer._running.shell
        assert shell.pool.waiting == 0
        assert shell.pool.available_bytes + sum(each.reserved for each in shell.accumulator.incomplete.batches()) == 400
        await producer.stop(0)

    run(test, **SMALL)


def test_a_cancelled_send_appends_nothing() -> None:
    async def test(net: HostedNet, producer: AsyncProducer) -> None:
        await producer.partitions_for("topic")
        await producer.send("topic", b"first", partition=0)
        second = asyncio.create_task(producer.send("topic", b"second", partition=1))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        await producer.stop()
        assert len(net.cluster.state.log(TopicPartition("topic", 0)).records) == 1
        assert not net.cluster.state.log(TopicPartition("topic", 1)).records

    run(test)


def test_a_cancelled_wait_for_metadata_ends_in_the_background_thread_too() -> None:
    async def test(net: HostedNet, producer: AsyncProducer) -> None:
        topics: Any = producer._running.shell.topics
        waits: list[str] = []
        original = topics.wait

        async def wait(*arguments: Any) -> Any:
            try:
                return await original(*arguments)
            finally:
                waits.append("ended")

        topics.wait = wait
        sends = [asyncio.create_task(producer.send("unknown", b"value")) for _ in range(50)]
        await until(lambda: "unknown" in producer._running.shell.metadata._interest.names)
        assert (await producer.send("topic", b"known")) is not None, "waits for a topic delay no other topic"
        for send in sends:
            send.cancel()
        await asyncio.gather(*sends, return_exceptions=True)
        await until(lambda: len(waits) >= 50)

    run(test)


def test_a_cancelled_await_of_a_delivery_leaves_the_record() -> None:
    async def test(net: HostedNet, producer: AsyncProducer) -> None:
        net.hold(ApiKey.PRODUCE)
        delivery = await producer.send("topic", b"value")

        async def outcome() -> Any:
            return await delivery

        waiting = asyncio.create_task(outcome())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        net.release()
        assert (await delivery).offset == 0

    run(test)


def test_a_cancelled_flush_has_closed_the_batches_of_before_and_no_others() -> None:
    async def test(net: HostedNet, producer: AsyncProducer) -> None:
        net.hold(ApiKey.PRODUCE)
        sent = await producer.send("topic", b"value")
        flush = asyncio.create_task(producer.flush())
        await until(lambda: sent._delivery.batch._callbacks)
        flush.cancel()
        await asyncio.gather(flush, return_exceptions=True)
        later = await producer.send("topic", b"later")
        assert (sent._delivery.batch.is_closed, later._delivery.batch.is_closed) == (True, False)
        net.release()

    run(test, linger_ms=1000)


def test_a_cancelled_end_of_the_block_fails_the_rest() -> None:
    async def main() -> None:
        net = HostedNet()
        deliveries, producers = [], []

        async def block() -> None:
            async with AsyncProducer(world=net.world(), **SETTINGS) as producer:
                producers.append(producer)
                net.wait_running()
                net.cluster.script(ApiKey.PRODUCE, silent)
                deliveries.append(await producer.send("topic", b"value"))

        task = asyncio.create_task(block())
        await until(lambda: producers and producers[0]._running.is_closed)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, WAIT_S)
        with pytest.raises(ProducerClosed):
            deliveries[0].result()

    asyncio.run(main())


def test_a_cancelled_start_leaves_no_thread() -> None:
    async def main() -> None:
        net = HostedNet({ApiKey.INIT_PRODUCER_ID: silent})
        producer = AsyncProducer(world=net.world(), transactional_id="t", client_id="cancelled", **SETTINGS)
        start = asyncio.create_task(producer.start())
        await until(net._running.is_set)
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start
        assert "cancelled" not in [thread.name for thread in threading.enumerate()]

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a task is destroyed
def test_an_event_loop_that_is_closed_early_loses_no_memory() -> None:
    loop = asyncio.new_event_loop()
    net = HostedNet()
    producer = AsyncProducer(world=net.world(), **SETTINGS | SMALL)

    async def block() -> asyncio.Task[Any]:
        await producer.start()
        net.wait_running()
        await producer.partitions_for("topic")
        net.hold(ApiKey.PRODUCE)
        while producer._running.shell.pool.available_bytes:
            await producer.send("topic", b"x" * 100, partition=0)
        waiting = asyncio.create_task(producer.send("topic", b"x" * 100, partition=0))
        await until(lambda: producer._running.shell.pool.waiting)
        return waiting

    waiting = loop.run_until_complete(block())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    net.release()
    pool = producer._running.shell.pool
    wait_until(lambda: pool.available_bytes == 400)
    assert pool.waiting == 0
    producer._running.close()
    del waiting
    gc.collect()


def test_columns_are_appended_in_portions_and_their_cancellation_stops_them() -> None:
    async def test(net: HostedNet, producer: AsyncProducer) -> None:
        result = await (await producer.send_many("topic", [b"x" * 50] * 100, partition=1))
        assert result.offsets == list(range(100))
        net.cluster.script(ApiKey.PRODUCE, silent)
        pool = producer._running.shell.pool
        sending = asyncio.create_task(producer.send_many("topic", [b"x" * 50] * 100, partition=1))
        await until(lambda: pool.waiting)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        assert pool.waiting == 0
        await producer.stop(0)

    run(test, **SMALL)


def test_the_rows_of_a_call_share_a_large_batch() -> None:
    async def test(net: HostedNet, producer: AsyncProducer) -> None:
        result = await (await producer.send_many("topic", [bytes(100)] * 2000, partition=1))
        assert result.offsets == list(range(2000))
        assert producer.statistics().requests == 1

    run(test)


def test_a_closed_producer_refuses_records() -> None:
    async def test(net: HostedNet, producer: AsyncProducer) -> None:
        await producer.stop()
        for topic in ("topic", "unknown"):
            with pytest.raises(ProducerClosed):
                await producer.send(topic, b"value")

    run(test)


def test_a_transaction_block_keeps_its_error_though_the_producer_was_closed_in_it() -> None:
    async def block(producer: AsyncProducer) -> None:
        async with producer.transaction():
            await producer.send("topic", b"value")
            await producer.stop()  # which aborts the transaction
            raise asyncio.CancelledError

    async def test(_net: HostedNet, producer: AsyncProducer) -> None:
        with pytest.raises(asyncio.CancelledError):
            await block(producer)

    run(test, transactional_id="t")


def test_only_async_producer_imports_asyncio() -> None:
    program = "import sys, pykbroker.producer as p; print('asyncio' in sys.modules, p.AsyncProducer.__name__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False AsyncProducer\n"


def test_a_partitioner_gets_the_serialized_key_and_selects_the_partition() -> None:
    calls: list[tuple[bytes | None, list[int], list[int]]] = []

    def last(key: bytes | None, partitions: list[int], available: list[int]) -> int:
        calls.append((key, partitions, available))
        return partitions[-1]

    async def test(net: HostedNet, producer: AsyncProducer) -> None:
        placed = [await producer.send_and_wait("topic", b"value", key) for key in ("key", None)]
        assert [each.partition for each in placed] == [2, 2]
        assert calls == [(b"key", [0, 1, 2], [0, 1, 2]), (None, [0, 1, 2], [0, 1, 2])]
        assert (await producer.send_and_wait("topic", b"value", "key", partition=1)).partition == 1
        assert len(calls) == 2, "a record with a partition needs no partitioner"

    run(test, partitioner=last, key_serializer=lambda key: None if key is None else key.encode())


def test_a_partitioner_that_fails_or_returns_no_partition_refuses_one_record() -> None:
    answers: list[Any] = [ZeroDivisionError("the partitioner's own"), 3, -1, None, 0]

    def scripted(_key: bytes | None, _partitions: list[int], _available: list[int]) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def test(net: HostedNet, producer: AsyncProducer) -> None:
        with pytest.raises(ZeroDivisionError, match="the partitioner's own"):
            await producer.send("topic", b"bad")
        for wrong in ("3", "-1", "None"):
            with pytest.raises(ValueError, match=f"the partitioner returned {wrong} for topic 'topic': .* from 0 to 2"):
                await producer.send("topic", b"bad")
        assert (await producer.send_and_wait("topic", b"good")).offset == 0

    run(test, partitioner=scripted)


def test_a_partitioner_waits_for_the_topic_and_for_memory() -> None:
    async def test(net: HostedNet, producer: AsyncProducer) -> None:
        sent = [await producer.send("topic", b"x" * 100) for _ in range(20)]
        assert {(await each).partition for each in sent} == {1}

    run(test, partitioner=lambda _key, _partitions, _available: 1, **SMALL)


def test_stop_before_start_does_nothing() -> None:
    asyncio.run(AsyncProducer(bootstrap_servers="node1:9092").stop())
