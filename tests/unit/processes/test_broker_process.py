"""Tests of the process of a broker, with programs that are none: messages, orders, signals and the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from pykbroker.core.address import Address
from pykbroker.core.settings import Serving
from pykbroker.processes.broker_process import BrokerProcess
from pykbroker.processes.messages import Announcement, StartRefused, Stopped, decoded, tell

ECHO = "import os, sys\nfor line in sys.stdin.buffer: os.write(int(sys.argv[2]), line)"
"""A program whose messages are its orders, until they end."""

Started = Callable[[str], BrokerProcess]


@pytest.fixture
def started() -> Iterator[Started]:
    """Yield a function that starts a Python program. Programs that still run are killed."""
    with ExitStack() as stack:

        def start(program: str) -> BrokerProcess:
            process = BrokerProcess([sys.executable, "-S", "-c", program], stdin=subprocess.PIPE)
            stack.enter_context(closing(process))
            stack.callback(process.kill)
            return process

        yield start


def test_a_process_tells_messages_until_it_ends(started: Started) -> None:
    process = started(ECHO)
    with pytest.raises(TimeoutError):
        process.message(0)
    for line, message in (
        (b'{"type":"StartRefused","reason":"no"}', StartRefused("no")),
        (b'{"type":"Stopped"}', Stopped()),
    ):
        process.order(line)
        assert process.message() == message
    assert process.runs
    process.close()
    assert (process.ended(), process.runs) == (0, False)
    process.kill()
    process.send_signal(signal.SIGTERM)


def test_the_end_of_a_process_is_no_message(started: Started) -> None:
    process = started("raise SystemExit(3)")
    assert process.message() is None
    assert process.ended() == 3
    process.order(b"nobody reads this")


def test_messages_that_come_at_once_are_read_one_by_one_and_half_a_message_is_none(started: Started) -> None:
    process = started(ECHO)
    process.order(b'{"type":"StartRefused","reason":"no"}\n{"type":"Stopped"}')
    assert [process.message(10), process.message(10)] == [StartRefused("no"), Stopped()]
    half = started("import os, sys\nos.write(int(sys.argv[2]), b'{\"type\":')")
    assert half.message() is None


def test_a_process_that_does_not_end_in_time_is_killed(started: Started) -> None:
    process = started(ECHO)
    with pytest.raises(TimeoutError, match=f"process {process.pid} did not end within 0 s and was killed"):
        process.ended(0)
    assert process.ended() == -signal.SIGKILL


def test_a_paused_process_answers_once_it_is_resumed(started: Started) -> None:
    process = started(ECHO)
    process.pause()
    process.order(b'{"type":"Stopped"}')
    with pytest.raises(TimeoutError):
        process.message(0.01)
    process.resume()
    assert process.message() == Stopped()


def test_a_process_that_has_ended_is_neither_paused_nor_resumed(started: Started) -> None:
    process = started("raise SystemExit(3)")
    assert process.message() is None
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    for _ in range(2):
        process.pause()
        process.resume()
        assert process.ended() == 3


def test_a_program_that_cannot_be_started_leaves_no_descriptors() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        BrokerProcess(["/nowhere/program"])
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_announcement_has_all_addresses_of_a_broker() -> None:
    listeners = {"PLAINTEXT": Address("127.0.0.1", 1), "INTERNAL": Address("::1", 2)}
    serving = Serving("127.0.0.1", 1, "c", 1, dict, listeners, {"CONTROLLER": Address("127.0.0.1", 3)})
    messages, theirs = os.pipe()
    with os.fdopen(messages, "rb") as reader:
        tell(theirs, Announcement.of(serving))
        found = decoded(reader.readline())
    tell(theirs, Stopped())  # nobody reads any more
    os.close(theirs)
    assert found == Announcement(Address("127.0.0.1", 1), "c", listeners, Address("127.0.0.1", 3))
