"""`pykbroker consume` and `pykbroker bench` against this broker and against three nodes of Apache Kafka."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

COMMAND_S_MAX = 60
PATIENCE_S = 30

pytestmark = pytest.mark.timeout(180)


class CommandTarget(NamedTuple):
    """A cluster that commands are run against."""

    bootstrap: str
    replicas: int

    def topic(self, partitions: int = 3, **configs: str) -> str:
        """Create a topic."""
        name = f"commands-{uuid.uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for created in admin.create_topics([NewTopic(name, partitions, self.replicas, config=configs)]).values():
            created.result(PATIENCE_S)
        return name

    def command(self, *words: object) -> list[str]:
        return [sys.executable, "-m", "pykbroker", *map(str, words), "-b", self.bootstrap]

    def run(self, *words: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run `pykbroker ...` to its end."""
        return subprocess.run(self.command(*words), input=stdin, capture_output=True, timeout=COMMAND_S_MAX)

    def rows(self, *words: object) -> list[dict[str, Any]]:
        """Return the JSON document that a command prints."""
        done = self.run(*words, "--json")
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    def end_offsets(self, topic: str) -> int:
        """Return the sum of the end offsets of a topic."""
        return sum(row["latest"] for row in self.rows("topics", "offsets", topic))


@pytest.fixture(scope="module", params=["pykbroker", "kafka"])
def target(request: pytest.FixtureRequest) -> CommandTarget:
    """Return a cluster of each kind."""
    if request.param == "kafka":
        nodes = request.getfixturevalue("kafka_nodes").bootstrap
        return CommandTarget(",".join(f"{host}:{port}" for host, port in nodes), 3)
    return CommandTarget(request.getfixturevalue("shared_broker").address, 1)


def seen_in(lines: Sequence[str]) -> int:
    """Return the records of the last live line."""
    found = re.fullmatch(r"\d+ s: [\d,]+ records/s, [\d,.]+ MB/s, ([\d,]+) records", lines[-1])
    assert found is not None, lines
    return int(found[1].replace(",", ""))


def test_bench_produce_reports_the_records_that_the_topic_has(target: CommandTarget) -> None:
    topic = target.topic()
    (row,) = target.rows("bench", "produce", topic, "--count", 25_000, "--bytes", 20, "--codec", "lz4")
    assert row["records"] == target.end_offsets(topic) == 25_000
    assert row["records_per_second"] == pytest.approx(25_000 / row["seconds"], rel=0.01)
    assert row["mb_per_second"] == pytest.approx(0.5 / row["seconds"], abs=0.06)
    assert 0 < row["latency_p50_ms"] <= row["latency_p99_ms"] < 1000 * row["seconds"]


def test_bench_produce_keeps_to_its_rate_and_its_time(target: CommandTarget) -> None:
    topic = target.topic()
    done = target.run("bench", "produce", topic, "--rate", 500, "--seconds", 2.5, "--partition", 1)
    assert done.returncode == 0, done.stderr.decode()
    assert target.end_offsets(topic) == 1250
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 2
    assert 0 < seen_in(lines) <= 1250
    head, values = done.stdout.decode().splitlines()
    assert head.split("  ")[0] == "RECORDS"
    assert values.split()[0] == "1250"


def test_bench_produce_prints_its_result_after_a_signal(target: CommandTarget) -> None:
    topic = target.topic()
    command = target.command("bench", "produce", topic, "--rate", 1000, "--seconds", 1000, "--json")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=COMMAND_S_MAX)
    assert process.returncode == 0, errors
    (row,) = json.loads(output)
    assert row["records"] == target.end_offsets(topic) > 0


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (("--partition", 9, "-X", "max.block.ms=300"), 1, "no partition 9 after max_block_ms=300"),
        (("-X", "lingr.ms=1"), 1, "there is no setting 'lingr_ms': do you mean 'linger_ms'?"),
        (("-X", "max_request_size=50"), 1, "max_request_size"),
        (("--count", 0), 2, "0 is not in the range x>=1"),
    ],
)
def test_a_load_that_cannot_be_sent_is_an_error_with_a_remedy(
    target: CommandTarget, words: tuple[object, ...], status: int, text: str
) -> None:
    done = target.run("bench", "produce", target.topic(), *words)
    assert (done.returncode, text in done.stderr.decode()) == (status, True), done.stderr.decode()
    assert b"Traceback" not in done.stderr
