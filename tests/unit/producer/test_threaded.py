"""The shell of producers that threads share: wake-ups and waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykbroker.producer.appending import MemoryWait
from pykbroker.producer.settings import producer_settings
from pykbroker.producer.threaded import ThreadedProducer
from tests.unit.producer.conftest import Producing


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
