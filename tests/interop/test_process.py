"""The broker as a process: it says where it listens, ends when asked, and comes back on its port after a crash."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from tools.smoke import count_apis


def test_a_broker_answers_and_ends_with_0_at_sigterm(broker):
    assert count_apis(broker.port) > 0
    assert broker.stop() == 0


def test_a_broker_in_memory_needs_no_directory(start_broker):
    assert count_apis(start_broker("--memory").port) > 0


def test_a_killed_broker_comes_back_on_its_port_and_directory(broker):
    port = broker.port
    broker.kill()
    broker.restart()
    assert broker.port == port
    assert count_apis(port) > 0


@pytest.mark.timeout(180)  # nine starts, of seconds each where a machine is busy
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_any_time_of_the_start_ends_it_in_silence(tmp_path, number):
    command = [sys.executable, "-m", "pykbroker", "start", "--data-dir", tmp_path / "d", "--listen", "127.0.0.1:0"]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        start_s = time.monotonic() - began
        process.send_signal(number)
    assert process.returncode == 0
    for part in range(1, 9):
        with subprocess.Popen([*command, "--topic", "a:3"], stderr=subprocess.PIPE, text=True) as process:
            time.sleep(start_s * part / 8)
            process.send_signal(number)
            said = process.stderr.read()
        assert "Traceback" not in said
        assert process.returncode in ({0} if "INFO" in said else {0, -number}), said
        assert (tmp_path / "d/.kafka_cleanshutdown").exists()
