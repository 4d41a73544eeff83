"""Tests of the broker as a process: its output, its exit on SIGTERM, and restarts on the same port."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.bad_batches import good
from tests.interop.raw_client import RawClient
from tools.broker_process import BrokerProcess
from tools.smoke import count_apis


def test_a_broker_serves_and_exits_with_0_after_sigterm(broker):
    assert count_apis(broker.port) > 0
    assert broker.stop() == 0


def test_an_in_memory_broker_needs_no_directory(start_broker):
    assert count_apis(start_broker("--memory").port) > 0


def test_a_killed_broker_restarts_on_the_same_port_and_directory(broker):
    port = broker.port
    broker.kill()
    broker.restart()
    assert broker.port == port
    assert count_apis(port) > 0


def test_a_second_broker_on_a_directory_is_refused_and_the_first_continues(
    start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    """The lock applies to every path to the directory, and to each of several directories. A kill releases it."""
    data, other = tmp_path / "data", tmp_path / "other"
    first = start_broker("--data-dir", str(data))
    with RawClient(first.address) as client:
        topic = client.create_topic()
        assert client.produce(topic, good()) == 0
        (tmp_path / "link").symlink_to(data)
        for options in (
            ("--data-dir", str(data)),
            ("--data-dir", str(tmp_path / "link")),
            ("--set", f"log.dirs={other},{data}"),
            ("--set", f"log.dirs={data},{other}"),
        ):
            with pytest.raises(RuntimeError, match="is in use by another broker .*: stop that broker") as refusal:
                start_broker(*options)
            assert "Traceback" not in str(refusal.value)
        assert client.produce(topic, good()) == 0
        assert len(client.read(topic)) == 4
    first.kill()
    second = start_broker("--data-dir", str(data))
    with RawClient(second.address) as client:
        assert len(client.read(topic)) == 4
    assert second.stop() == 0


@pytest.mark.timeout(180)  # Each of the nine starts takes seconds on a busy machine.
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_any_moment_of_the_start_stops_it_without_an_error(tmp_path: Path, number: int) -> None:
    command = [sys.executable, "-m", "pykbroker", "start", "--data-dir", str(tmp_path / "d"), "--listen", "127.0.0.1:0"]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        start_s = time.monotonic() - began
        process.send_signal(number)
    assert process.returncode == 0
    for part in range(1, 9):
        with subprocess.Popen([*command, "--topic", "a:3"], stderr=subprocess.PIPE, text=True) as process:
            time.sleep(start_s * part / 8)
            process.send_signal(number)
            assert process.stderr is not None
            output = process.stderr.read()
        assert "Traceback" not in output
        assert process.returncode in ({0} if "INFO" in output else {0, -number}), output
        assert (tmp_path / "d/.kafka_cleanshutdown").exists()
