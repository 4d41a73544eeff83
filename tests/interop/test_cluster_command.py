"""`pykbroker cluster`: one line once all brokers serve, and a broker that dies is started again, however many clients
are connected.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tools.broker_process import PYKBROKER

START_S_MAX, STOP_S_MAX = 40, 40
CONNECTIONS_MAX = 40


class Command:
    """A running `pykbroker cluster`."""

    def __init__(self, work: Path, *options: str, **variables: str) -> None:
        self.stdout, self.stderr = work / "stdout", work / "stderr"
        with self.stdout.open("wb") as stdout, self.stderr.open("wb") as stderr:
            command = [*PYKBROKER, "cluster", "--listen", "127.0.0.1:0", *options]
            environ = {**os.environ, **variables}
            self.process = subprocess.Popen(
                command, env=environ, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
            )

    def wait_for(self, pattern: str, file: Path) -> re.Match[str]:
        """Wait until a file has text that matches."""
        deadline = time.monotonic() + START_S_MAX
        while not (found := re.search(pattern, file.read_text())):
            assert self.process.poll() is None, self.stderr.read_text()
            assert time.monotonic() < deadline, self.stderr.read_text()
            time.sleep(0.02)
        return found

    def children(self) -> list[int]:
        """Return the pids of the brokers, the oldest first."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return sorted(int(pid) for task in tasks for pid in task.read_text().split())

    def stop(self) -> int:
        """Stop the cluster and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_S_MAX)


def runs(pid: int) -> bool:
    """Whether a process runs. One that has ended may wait for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    limited = ("--set", f"max.connections={CONNECTIONS_MAX}")
    secured = ("--tls", "auto", "--user", "alice:canary", "--user", "bob", "--authorize")
    running = Command(
        tmp_path, "--brokers", "3", "--data-dir", str(tmp_path / "data"), "--topic", "t:6", *limited, *secured
    )
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.stop()


def wait_for_isr(admin: AdminClient, brokers: list[int]) -> None:
    """Wait until these brokers are in the ISR of every partition of the topic."""
    deadline, found = time.monotonic() + START_S_MAX, set[tuple[int, ...]]()
    while found != {tuple(brokers)}:
        assert time.monotonic() < deadline, found
        partitions = admin.list_topics("t", 10).topics["t"].partitions.values()
        found = {tuple(sorted(partition.isrs)) for partition in partitions}


def test_a_secured_cluster_serves_and_starts_a_broker_that_dies_again(command: Command, tmp_path: Path) -> None:
    found = command.wait_for(r"is a cluster of 3 brokers on (.*) \(cluster ", command.stdout)
    bootstrap = found[1].replace(" ", "")
    _, of_bob, trust, log_in = command.stdout.read_text().splitlines()
    assert not any("canary" in Path(f"/proc/{pid}/cmdline").read_text() for pid in command.children())
    assert f"security.protocol=SASL_SSL and trust {tmp_path}/data/1/tls-ca.pem, " in trust
    assert "sasl.mechanism=SCRAM-SHA-256, " in log_in
    by_tls = {"security.protocol": "SASL_SSL", "ssl.ca.location": f"{tmp_path}/data/1/tls-ca.pem"}
    common = {"bootstrap.servers": bootstrap, "sasl.mechanism": "SCRAM-SHA-256", **by_tls}
    alice = {**common, "sasl.username": "alice", "sasl.password": "canary"}
    password = of_bob.removeprefix("the password of bob is ").removesuffix(": note it, it is not shown again")
    bob = AdminClient({**common, "sasl.username": "bob", "sasl.password": password})
    assert not bob.list_topics(timeout=10).topics, "only the first user may do everything"
    admin = AdminClient(alice)
    topic = admin.list_topics("t", 10).topics["t"]
    assert {partition.leader for partition in topic.partitions.values()} == {1, 2, 3}
    with ExitStack() as idle:
        host, _, port = bootstrap.partition(",")[0].rpartition(":")
        for _ in range(2 * CONNECTIONS_MAX):
            idle.enter_context(socket.create_connection((host, int(port))))
        os.kill(command.children()[1], signal.SIGKILL)
        command.wait_for(r"broker 2 ended with exit code -9: starting it again", command.stderr)
        wait_for_isr(admin, [1, 3])
        wait_for_isr(admin, [1, 2, 3])
    producer = Producer(alice)
    errors: list[object] = []
    for number in range(60):
        producer.produce("t", b"v", partition=number % 6, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors == [None] * 60
    assert command.stop() == 0
    assert len(command.stdout.read_text().splitlines()) == 4, "the broker that is started again tells nothing"
    assert not re.search("is no client of|cannot connect to another", command.stderr.read_text())


def test_each_broker_has_its_own_address_and_console_and_a_second_ctrl_c_kills_them(tmp_path: Path) -> None:
    everywhere = ("--listen", "0.0.0.0:0", "--advertise", "localhost:0", "--console", "127.0.0.1:0")
    running = Command(tmp_path, "--brokers", "2", "--memory", *everywhere)
    try:
        found = running.wait_for(r"is a cluster of 2 brokers on 0\.0\.0\.0:(\d+), 0\.0\.0\.0:(\d+) ", running.stdout)
        brokers = AdminClient({"bootstrap.servers": f"127.0.0.1:{found[1]}"}).list_topics(timeout=10).brokers
        advertised = {f"{one.host}:{one.port}" for one in brokers.values()}
        assert advertised == {f"localhost:{port}" for port in found.groups()}
        consoles = set()
        for node_id in (1, 2):
            line = running.wait_for(
                rf"broker {node_id}: .*serving metrics on (http://127\.0\.0\.1:\d+)/", running.stderr
            )
            with urlopen(f"{line[1]}/readyz", timeout=10) as answer:
                consoles.add((line[1], answer.status))
        assert {status for _, status in consoles} == {200}
        assert len(consoles) == 2
        os.kill(running.children()[1], signal.SIGSTOP)  # a broker that does not stop in order
        running.process.send_signal(signal.SIGINT)
        running.wait_for("SIGINT: stopping", running.stderr)
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(STOP_S_MAX) == 130, "as `pykbroker start` after a second Ctrl-C"
    finally:
        running.process.kill()


def test_brokers_stop_and_remove_their_data_once_the_command_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.setenv("TMPDIR", str(data))
    running = Command(tmp_path, "--brokers", "3", "--memory", "--topic", "t:6", "--tls", "auto")
    running.wait_for("is a cluster of 3 brokers", running.stdout)
    controller, *others = running.children()
    assert len(others) == 2
    assert list(data.iterdir())
    running.process.kill()
    running.process.wait()
    deadline = time.monotonic() + STOP_S_MAX
    while runs(controller):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert not any(map(runs, others)), "the controller stops last"
    assert not list(data.iterdir())


def test_a_cluster_whose_brokers_are_not_restarted_ends_with_a_sentence(tmp_path: Path) -> None:
    running = Command(tmp_path, "--brokers", "2", "--memory", "--no-restart")
    running.wait_for("is a cluster of 2 brokers", running.stdout)
    assert len(running.stdout.read_text().splitlines()) == 1
    os.kill(running.children()[1], signal.SIGKILL)
    assert running.process.wait(STOP_S_MAX) == 1
    assert "Error: broker 2 ended with exit code -9: the cluster stops" in running.stderr.read_text()
