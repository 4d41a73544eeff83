"""The shell of producers that threads share: wake-ups and waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykbroker.producer.appending import MemoryWait, Wait, append_columns, run
from pykbroker.producer.settings import producer_settings
from pykbroker.producer.threaded import ThreadedProducer
from tests.unit.producer.conftest import Producing
from tests.unit.producer.hosted import HostedNet, threaded
from wire.api import ApiKey


class CallAfterRelease:
    """A lock that calls a function when it is released for the first time, as another thread might."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._functions = [function]

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_error: object) -> None:
        if self._functions:
            self._functions.pop()()


async def test_a_wake_up_right_after_requests_were_chosen_is_not_lost(producing: Producing) -> None:
    async with producing.producer() as producer:
        await (await producer.send("topic", b"value"))
        shell = producer._shell
        hops: list[Callable[[], None]] = []
        shell._busy = shell.topics.leading  # every broker was busy in the pass before
        shell._hop, shell.lock = hops.append, CallAfterRelease(shell.wake)
        shell.send_due()
        assert len(hops) == 1


def test_the_longest_max_block_ms_does_not_overflow_the_wait_of_a_thread() -> None:
    settings = producer_settings({"bootstrap_servers": "127.0.0.1:1", "max_block_ms": (1 << 63) - 1})
    producer = ThreadedProducer("producer", settings)
    try:
        front = producer.front
        ticket = front.ticket(1)
        producer.wait(MemoryWait(ticket, front.left_s(front.deadline_ms())))
        assert ticket.is_served
    finally:
        producer.close(0)


def test_an_interrupt_after_the_wait_for_memory_is_raised_in_place_of_its_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = HostedNet()
    producer = threaded(net, batch_size=200, buffer_memory=400)
    try:
        producer.partitions_for("topic")
        net.hold(ApiKey.PRODUCE)
        for partition in (0, 1):
            producer.try_send("topic", b"x" * 100, None, partition, (), None)

        def wait(wait: Wait) -> tuple[()]:
            """Stand in line, and return as if the time was over."""
            assert isinstance(wait, MemoryWait)
            producer.front.stand_in_line(wait.ticket, int)
            return ()

        leave, interrupts = producer.front.leave_line, iter([KeyboardInterrupt])

        def leave_line(ticket: Any) -> None:
            for interrupt in interrupts:
                raise interrupt
            leave(ticket)

        monkeypatch.setattr(producer.front, "leave_line", leave_line)
        with pytest.raises(KeyboardInterrupt):
            run(append_columns(producer.front, wait, "topic", [b"x" * 100], None, None, None, 2))
        assert producer.shell.pool.waiting == 0
    finally:
        net.release()
        producer.close(1)
