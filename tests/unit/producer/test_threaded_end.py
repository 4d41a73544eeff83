"""The end of a producer that threads share: a close from several threads, and a crash of its loop."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from typing import Any

import pytest
import trio

from pykbroker.core.producer.accumulator import RecordAccumulator
from pykbroker.core.producer.errors import ProducerClosed
from pykbroker.core.producer.record import SerializedRecord
from pykbroker.core.producer.sender import Sender
from pykbroker.core.producer.sequences import Sequences
from pykbroker.core.producer.transactions.manager import TransactionManager
from pykbroker.producer.appending import MemoryWait
from pykbroker.producer.delivery import Delivery
from pykbroker.producer.threaded import ThreadedProducer
from pykbroker.world.background import LoopEnded
from tests.unit.producer.hosted import WAIT_S, Call, HostedNet, Planted, threaded, wait_until
from wire.api import ApiKey


@pytest.fixture
def net() -> HostedNet:
    return HostedNet()


def send(producer: ThreadedProducer, value: bytes = b"value", partition: int | None = None) -> Delivery:
    """Append a record."""
    sent = producer.try_send("topic", value, None, partition, (), None)
    return sent if isinstance(sent, Delivery) else producer.append_waiting(sent)


class TestACrash:
    """A crash of the loop ends every wait with an error."""

    def waiting(self, producer: ThreadedProducer, kind: str) -> Call:
        """Return a call that waits for a record without a leader, for memory, or for metadata."""
        if kind == "topic":
            call = Call(producer.partitions_for, "unknown")
            wait_until(lambda: "unknown" in producer.shell.metadata._interest.names)
            return call
        delivery = send(producer, b"x" * 50, 0)
        if kind == "flush":
            call = Call(producer.flush)
            wait_until(lambda: delivery.batch._callbacks)
            return call
        if kind == "record":
            call = Call(producer.wait_settled, delivery.batch)
            wait_until(lambda: delivery.batch._callbacks)
            return call
        send(producer, b"x" * 50, 1)
        call = Call(send, producer, b"x" * 50, 2)
        wait_until(lambda: producer.shell.pool.waiting)
        return call

    @pytest.mark.parametrize("kind", ["topic", "flush", "record", "memory"])
    def test_every_wait_ends(self, net: HostedNet, kind: str) -> None:
        producer = threaded(net, batch_size=200, buffer_memory=400)
        producer.partitions_for("topic")
        producer.loop.call_soon(net.take_leaders)
        wait_until(lambda: net.cluster.state.topics["topic"].partitions[2].leader < 0)
        producer.shell.topics.leaders = {}
        waiting = self.waiting(producer, kind)
        net.crash()
        if kind in ("flush", "record"):
            assert waiting.join()
        else:
            with pytest.raises(RuntimeError, match="has failed"):
                waiting.join()
        with pytest.raises(RuntimeError, match="producer has failed"):
            producer.close()

    def test_records_without_an_outcome_fail_with_the_error(self, net: HostedNet) -> None:
        producer = threaded(net, linger_ms=60_000)
        delivery = send(producer)
        net.crash()
        wait_until(lambda: delivery.is_done)
        with pytest.raises(ProducerClosed, match="has failed") as caught:
            delivery.result()
        assert isinstance(caught.value.__cause__, Planted)

    @pytest.mark.parametrize(
        ("owner", "method"),
        [
            (Sender, "sends"),
            (Sender, "answered"),
            (Sender, "abort"),
            (Sequences, "drained"),
            (Sequences, "succeeded"),
            (RecordAccumulator, "drain"),
            (RecordAccumulator, "encode"),
        ],
    )
    def test_a_defect_wherever_it_is_leaves_no_thread_in_flush(
        self, net: HostedNet, monkeypatch: pytest.MonkeyPatch, owner: type, method: str
    ) -> None:
        def planted(*_args: Any, **_kwargs: Any) -> None:
            raise Planted("planted")

        producer = threaded(net, linger_ms=60_000)
        delivery = send(producer)
        if method == "abort":
            monkeypatch.setattr(Sender, "sends", planted)
        monkeypatch.setattr(owner, method, planted)
        for flush in [Call(producer.flush) for _ in range(3)]:
            with suppress(LoopEnded):
                flush.join()
        wait_until(lambda: delivery.is_done)  # a flush that begins after the crash has not waited for it
        with pytest.raises(ProducerClosed, match=r"has failed: Planted\('planted'\)"):
            delivery.result()
        with pytest.raises(LoopEnded, match=r"producer has failed: Planted\('planted'\)"):
            producer.close()

    def test_a_transaction_call_ends(self, net: HostedNet) -> None:
        producer = threaded(net, transactional_id="t")
        asked = threading.Event()

        async def never(_node: Any, _request: Any) -> None:
            asked.set()
            await trio.sleep_forever()

        net.cluster.script(ApiKey.INIT_PRODUCER_ID, never)
        waiting = Call(producer.call, TransactionManager.init)
        assert asked.wait(10)
        net.crash()
        with pytest.raises(RuntimeError, match="producer has failed"):
            waiting.join()


class TestClose:
    """All calls of `close` wait for the end, and no record is left without an outcome."""

    def test_a_second_close_waits_for_the_first(self, net: HostedNet) -> None:
        producer = threaded(net)
        net.cluster.script(ApiKey.PRODUCE, delayed)
        delivery = send(producer)
        first = Call(producer.close)
        wait_until(lambda: producer.is_closed)
        producer.close()
        assert delivery.is_done
        first.join()

    def test_a_second_close_that_may_not_wait_fails_the_rest(self, net: HostedNet) -> None:
        producer = threaded(net)
        net.cluster.script(ApiKey.PRODUCE, silent)
        delivery = send(producer)
        first = Call(producer.close)
        wait_until(lambda: producer.is_closed)
        producer.close(0)
        with pytest.raises(ProducerClosed):
            delivery.result()
        first.join()

    def test_a_wait_for_a_topic_ends_with_the_producer(self, net: HostedNet) -> None:
        producer = threaded(net)
        waiting = Call(producer.partitions_for, "unknown")
        wait_until(lambda: "unknown" in producer.shell.metadata._interest.names)
        producer.close()
        with pytest.raises(ProducerClosed):
            waiting.join()

    def test_a_record_whose_memory_was_granted_before_the_close_is_refused(self, net: HostedNet) -> None:
        producer = threaded(net)
        producer.partitions_for("topic")
        ticket = producer.front.ticket(100)
        producer.wait(MemoryWait(ticket, WAIT_S))
        producer.close()
        with pytest.raises(ProducerClosed):
            producer.front.append(SerializedRecord("topic", b"value", partition=0), ticket)
        producer.front.leave_line(ticket)
        assert producer.shell.pool.available_bytes == producer.settings.buffer_memory

    def test_records_that_are_sent_during_the_close_have_an_outcome(self, net: HostedNet) -> None:
        producer = threaded(net)
        sent: list[Delivery] = []

        def send_until_closed() -> None:
            while True:
                try:
                    sent.append(send(producer))
                except ProducerClosed:
                    return

        senders = [Call(send_until_closed) for _ in range(3)]
        wait_until(lambda: len(sent) > 1000)
        producer.close()
        for sender in senders:
            sender.join()
        assert all(delivery.is_done for delivery in sent)

    def test_a_time_out_holds_for_the_records_and_the_transaction_together(self, net: HostedNet) -> None:
        producer = threaded(net, transactional_id="t")
        producer.call(TransactionManager.init)
        producer.begin_transaction()
        net.cluster.script(ApiKey.PRODUCE, silent)
        net.cluster.script(ApiKey.END_TXN, silent)
        send(producer)
        started = time.monotonic()
        producer.close(0.5)
        assert time.monotonic() - started < 0.9


async def delayed(_node: Any, _request: Any) -> None:
    """Let a node answer a request after 0.2 s."""
    with trio.move_on_after(0.2):
        await trio.sleep_forever()


async def silent(_node: Any, _request: Any) -> None:
    """Let a node never answer a request."""
    await trio.sleep_forever()


class TestFork:
    """A producer in a process that was forked, while a thread of the parent held its lock."""

    def test_calls_raise_and_wait_for_no_lock(self, net: HostedNet, monkeypatch: pytest.MonkeyPatch) -> None:
        producer = threaded(net, transactional_id="t")
        held, over = threading.Event(), threading.Event()

        def hold() -> None:
            with producer.lock:
                held.set()
                over.wait(WAIT_S)

        holding = Call(hold)
        assert held.wait(WAIT_S)
        with monkeypatch.context() as patch:
            for each in (producer.shell.process, producer.loop._process):
                patch.setattr(each, "is_current", False)
            with pytest.raises(RuntimeError, match="was made in process"):
                Call(producer.shell.statistics).join()
            with pytest.raises(RuntimeError, match="was made in process"):
                Call(producer.try_send, "topic", b"value", None, None, (), None).join()
            Call(producer.front.failed, RuntimeError()).join()
        over.set()
        holding.join()
        producer.close()


class TestCallbacks:
    """Callbacks in the thread of the producer."""

    def test_a_callback_that_exits_is_logged_and_the_producer_goes_on(self, net: HostedNet, caplog) -> None:
        producer = threaded(net)
        net.hold(ApiKey.PRODUCE)
        assert producer.call_when_settled(send(producer, b"value", 0).batch, sys.exit)
        net.release()
        assert producer.flush(WAIT_S)
        last = send(producer, b"value", 0)
        producer.close()
        assert last.result().offset == 1
        assert "the thread of the producer cannot end the program" in caplog.text

    def test_a_first_send_to_a_topic_says_what_is_the_matter(self, net: HostedNet) -> None:
        producer = threaded(net)

        async def wait() -> None:
            producer.topic("topic")

        with pytest.raises(RuntimeError, match="topic 'topic' is not known yet, and a callback"):
            producer.loop.call(wait)
        producer.close()
