"""`pykbroker consume` and `pykbroker bench` against this broker and against three nodes of Apache Kafka."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import confluent_kafka as ck
import pytest
from click.testing import Result
from confluent_kafka.admin import AdminClient, NewTopic

from pykbroker.cli.bench.measurement import LATENCY_STEP
from tests.interop.one_process import run_here

COMMAND_S_MAX = 60
PATIENCE_S = 30
BEGUN_MS = 1_700_000_000_000
TIME = "2023-11-14T22:13:23+00:00"
"""Three seconds after `BEGUN_MS`."""
NUMBERS = [str(number) for number in range(10)]

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

    def filled(self, values: Sequence[object], partitions: int = 1) -> str:
        """Return a new topic with values in each partition, whose timestamps are one second apart, in lines of JSON."""
        topic = self.topic(partitions, **{"retention.ms": "-1"})
        rows = [
            {"value": value, "partition": partition, "timestamp": BEGUN_MS + 1000 * row}
            for partition in range(partitions)
            for row, value in enumerate(values)
        ]
        done = self.run("produce", topic, "--json", stdin="\n".join(map(json.dumps, rows)).encode())
        assert done.exit_code == 0, done.stderr
        return topic

    def lines(self, *words: object) -> list[str]:
        """Return the lines that `pykbroker consume` prints."""
        done = self.run("consume", *words)
        assert (done.exit_code, done.stderr) == (0, "")
        return done.stdout.splitlines()

    @contextmanager
    def started(self, *words: object) -> Iterator[subprocess.Popen[bytes]]:
        """Run `pykbroker consume` during the block, and kill it if it has not ended then."""
        command = self.command("consume", *words)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as process:
            try:
                yield process
                process.wait(COMMAND_S_MAX)
            finally:
                process.kill()

    def owners(self, group: str) -> set[str]:
        """Return the members that own partitions of a group, none if the group does not exist yet."""
        done = self.run("groups", "describe", group, "--json")
        return {row["consumer_id"] for row in json.loads(done.stdout)} - {None}

    def committed(self, group: str) -> dict[int, int | None]:
        """Return the committed offset of each partition of a group."""
        return {row["partition"]: row["current_offset"] for row in self.rows("groups", "describe", group)}

    def command(self, *words: object) -> list[str]:
        return [sys.executable, "-m", "pykbroker", *map(str, words), "-b", self.bootstrap]

    def run(self, *words: object, stdin: bytes = b"") -> Result:
        """Run `pykbroker ...` in this process."""
        return run_here(*words, "-b", self.bootstrap, stdin=stdin)

    def rows(self, *words: object) -> list[dict[str, Any]]:
        """Return the JSON document that a command prints."""
        done = self.run(*words, "--json")
        assert done.exit_code == 0, done.stderr
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


@pytest.fixture(scope="module")
def numbers(target: CommandTarget) -> tuple[CommandTarget, str]:
    """Return a cluster, and a topic of three partitions with the values 0 to 9, which no test changes."""
    return target, target.filled(NUMBERS, 3)


def interrupted(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGINT) -> bytes:
    """Send a signal, and return the rest of the output. Fail if there is an error message."""
    process.send_signal(number)
    output, errors = process.communicate(timeout=COMMAND_S_MAX)
    assert errors == b""
    return output


def new_group() -> str:
    return f"readers-{uuid.uuid4().hex[:8]}"


# ---- formats


def test_json_lines_can_be_produced_again(target: CommandTarget) -> None:
    topic, copy = target.topic(1), target.topic(1)
    rows: list[dict[str, Any]] = [
        {"key": "a", "value": "b", "headers": [["h", "1"], ["h", None]], "timestamp": BEGUN_MS},
        {"key_base64": "/w==", "value_base64": "gA==", "headers_base64": [["h", "/w=="]], "timestamp": BEGUN_MS + 1},
        {"key": None, "value": None, "headers": [], "timestamp": BEGUN_MS + 2},
        {"key": "", "value": "ä", "headers": [], "timestamp": BEGUN_MS + 3},
    ]
    target.run("produce", topic, "--json", stdin="\n".join(map(json.dumps, rows)).encode())
    lines = target.lines(topic, "--json")
    places: list[dict[str, Any]] = [{"topic": topic, "partition": 0, "offset": offset} for offset in range(4)]
    assert [json.loads(line) for line in lines] == [place | row for place, row in zip(places, rows, strict=True)]
    done = target.run("produce", copy, "--json", stdin="\n".join(lines).encode())
    assert done.exit_code == 0, done.stderr
    assert target.lines(copy, "-f", "json") == [line.replace(topic, copy) for line in lines]


def test_values_are_printed_as_lines_raw_or_by_a_template(target: CommandTarget) -> None:
    topic = target.topic(1)
    target.run("produce", topic, "--key-delimiter", "=", stdin=b"a=1\nplain\n")
    assert target.lines(topic) == ["1", "plain"]
    assert target.lines(topic, "--key-delimiter", ":", "--null", "NULL") == ["a:1", "NULL:plain"]
    assert target.lines(topic, "--format", "raw") == ["1plain"]
    template = r"{topic} {partition}\t{offset} {key} {value} {key_bytes}\n"
    assert target.lines(topic, "-f", template, "--null", "-") == [f"{topic} 0\t0 a 1 1", f"{topic} 0\t1 - plain -1"]


# ---- the range


@pytest.mark.parametrize(
    ("words", "offsets"),
    [
        ((), range(10)),
        (("--from", "beginning", "--to", "end"), range(10)),
        (("--from", "7"), range(7, 10)),
        (("--from", "-2"), range(8, 10)),
        (("--from", "-20"), range(10)),
        (("--from", "10"), range(0)),
        (("--from", "50"), range(0)),
        (("--from", TIME), range(3, 10)),
        (("--from", "2100-01-01"), range(0)),
        (("--to", "4"), range(4)),
        (("--to", "50"), range(10)),
        (("--to", TIME), range(3)),
        (("--to", "2100-01-01"), range(10)),
        (("--from", "2", "--to", "5"), range(2, 5)),
        (("--from", "5", "--to", "2"), range(0)),
        (("--count", "4"), range(4)),
        (("--count", "40"), range(10)),
        (("--from", "8", "--to", "12", "--count", "1"), range(8, 9)),
    ],
)
def test_the_range_selects_offsets(numbers: tuple[CommandTarget, str], words: tuple[str, ...], offsets: range) -> None:
    target, topic = numbers
    assert target.lines(topic, "--partition", 1, *words) == [str(offset) for offset in offsets]


def test_the_range_applies_to_each_partition_and_each_topic(numbers: tuple[CommandTarget, str]) -> None:
    target, topic = numbers
    other = target.filled(["a", "b", "c"])
    lines = target.lines(topic, other, "--from", "-1", "-f", r"{topic} {partition} {offset} {value}\n")
    assert sorted(lines) == sorted([f"{topic} {index} 9 9" for index in range(3)] + [f"{other} 0 2 c"])
    assert len(target.lines(topic, other, "--count", 7)) == 7
    chosen = target.lines(topic, "--partition", 0, "--partition", 2, "-f", r"{partition}\n")
    assert sorted(chosen) == ["0"] * 10 + ["2"] * 10


def test_an_empty_topic_ends_at_once(target: CommandTarget) -> None:
    topic = target.topic()
    assert target.lines(topic) == []
    assert target.lines(topic, "--group", new_group()) == []


def test_records_of_open_and_aborted_transactions_are_left_out(target: CommandTarget) -> None:
    topic = target.topic(1)
    producer = ck.Producer({"bootstrap.servers": target.bootstrap, "transactional.id": topic})
    producer.init_transactions(PATIENCE_S)
    for value, ends in (
        (b"kept", producer.commit_transaction),
        (b"aborted", producer.abort_transaction),
        (b"open", None),
    ):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(PATIENCE_S)
        if ends is not None:
            ends(PATIENCE_S)
    assert target.lines(topic) == ["kept"]
    assert target.lines(topic, "--group", new_group()) == ["kept"]
    assert target.lines(topic, "--uncommitted") == ["kept", "aborted", "open"]
    producer.abort_transaction(PATIENCE_S)
    assert target.lines(topic) == ["kept"]


# ---- following


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_log_is_followed_until_a_signal(target: CommandTarget, number: signal.Signals) -> None:
    topic = target.filled(["old"])
    with target.started(topic, "--follow") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"old\n"
        target.run("produce", topic, stdin=b"new\n")
        assert process.stdout.readline() == b"new\n"
        assert interrupted(process, number) == b""
    assert process.returncode == 0


def test_only_new_records_are_followed_from_the_end(target: CommandTarget) -> None:
    topic, group = target.filled(["old"]), new_group()
    with target.started(topic, "--follow", "--from", "-1", "--to", "3") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"old\n"
        target.run("produce", topic, stdin=b"1\n2\n3\n")
        output, errors = process.communicate(timeout=COMMAND_S_MAX)
    assert (process.returncode, output, errors) == (0, b"1\n2\n", b"")
    assert target.lines(topic, "--group", group, "--from", "end") == []
    target.run("produce", topic, stdin=b"4\n")
    assert target.lines(topic, "--group", group) == ["4"]


def test_a_signal_before_the_end_is_the_exit_code(target: CommandTarget) -> None:
    values = [f"{number:0100}" for number in range(30_000)]
    topic = target.topic(1)
    target.run("produce", topic, stdin="\n".join(values).encode())
    with target.started(topic) as process:  # it waits for a reader of its output, which is larger than a pipe
        assert process.stdout is not None
        first = process.stdout.readline()
        lines = (first + interrupted(process)).decode().splitlines()
    assert process.returncode == 128 + signal.SIGINT
    assert lines == values[: len(lines)]
    assert len(lines) < len(values)


def test_an_output_that_is_closed_ends_the_command_silently(target: CommandTarget) -> None:
    topic, group = target.topic(1), new_group()
    target.run("produce", topic, stdin=b"0123456789\n" * 50_000)
    for words in (), ("--group", group):
        with target.started(topic, *words) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"0123456789\n"
            process.stdout.close()
            assert process.stderr is not None
            assert process.stderr.read() == b""
        assert process.returncode == 1
    assert len(target.lines(topic, "--group", group)) == 50_000


# ---- groups


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_reads_each_record_once(numbers: tuple[CommandTarget, str], protocol: str) -> None:
    target, topic = numbers
    words = (topic, "--group", new_group(), "-X", f"group.protocol={protocol}")
    first = target.lines(*words, "--count", 7)
    assert len(first) == 7
    rest = target.lines(*words)
    assert sorted(first + rest) == sorted(NUMBERS * 3)
    assert target.lines(*words) == []


def test_a_group_commits_the_stop_of_a_range(numbers: tuple[CommandTarget, str]) -> None:
    target, topic = numbers
    group = new_group()
    assert sorted(target.lines(topic, "--group", group, "--to", 4)) == sorted(NUMBERS[:4] * 3)
    assert target.committed(group) == dict.fromkeys(range(3), 4)


def test_members_share_the_partitions_and_commit(target: CommandTarget) -> None:
    topic, group = target.filled(NUMBERS, 3), new_group()
    template = r"{partition} {offset}\n"
    soon = ("-X", "auto.commit.interval.ms=100", "-X", "heartbeat.interval.ms=200")
    words = (topic, "--group", group, "--follow", "-f", template, *soon)
    with target.started(*words) as one, target.started(*words) as two:
        assert one.stdout is not None
        assert two.stdout is not None
        while len(target.owners(group)) < 2:
            assert one.poll() is two.poll() is None
        for index in range(3):
            target.run("produce", topic, "--partition", index, stdin=b"more\n")
        while (lags := [row["lag"] for row in target.rows("groups", "describe", group)]) != [0, 0, 0]:
            assert set(lags) <= {None, *range(12)}
        of_two = interrupted(two).splitlines()
        of_one = interrupted(one).splitlines()
    assert (one.returncode, two.returncode) == (0, 0)
    assert target.committed(group) == dict.fromkeys(range(3), 11)
    assert any(line.endswith(b" 10") for line in of_one)
    assert any(line.endswith(b" 10") for line in of_two)
    assert sorted(of_one + of_two) == sorted(b"%d %d" % (index, offset) for index in range(3) for offset in range(11))


# ---- errors


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("no-such-topic",), "topic 'no-such-topic' does not exist"),
        (("TOPIC", "--partition", 9), "has 3 partitions and no partition 9"),
        (("TOPIC", "--follow", "--from", 99), "ends at offset 10, before --from 99"),
        (("TOPIC", "-X", "fetch.min.byte=1"), "no setting 'fetch_min_byte': do you mean 'fetch_min_bytes'?"),
    ],
)
def test_records_that_cannot_be_consumed_are_an_error_with_a_remedy(
    numbers: tuple[CommandTarget, str], words: tuple[object, ...], text: str
) -> None:
    target, topic = numbers
    done = target.run("consume", *(topic if word == "TOPIC" else word for word in words))
    assert (done.exit_code, text in done.stderr) == (1, True), done.stderr
    assert done.stdout == ""


# ---- bench


def seen_in(lines: Sequence[str]) -> int:
    """Return the records of the last live line."""
    found = re.fullmatch(r"\d+ s: [\d,]+ records/s, [\d,.]+ MB/s, ([\d,]+) records", lines[-1])
    assert found is not None, lines
    return int(found[1].replace(",", ""))


def test_bench_produce_reports_the_records_that_the_topic_has(target: CommandTarget) -> None:
    topic = target.topic()
    (row,) = target.rows("bench", "produce", topic, "--count", 25_000, "--bytes", 20, "--codec", "lz4")
    assert row["records"] == target.end_offsets(topic) == 25_000
    assert row["records_per_second"] == pytest.approx(25_000 / row["seconds"], rel=0.1)
    assert row["mb_per_second"] == pytest.approx(0.5 / row["seconds"], rel=0.1, abs=0.06)
    assert 0 < row["latency_p50_ms"] <= row["latency_p99_ms"] < 1000 * row["seconds"] * (1 + LATENCY_STEP) + 1


def test_bench_produce_keeps_to_its_rate_and_its_time(target: CommandTarget) -> None:
    topic = target.topic()
    done = target.run("bench", "produce", topic, "--rate", 500, "--seconds", 1.2, "--partition", 1)
    assert done.exit_code == 0, done.stderr
    assert target.end_offsets(topic) == 600
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    assert 0 < seen_in(lines) <= 600
    head, values = done.stdout.splitlines()
    assert head.split("  ")[0] == "RECORDS"
    assert values.split()[0] == "600"


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
        (("--partition", 9), 1, "has 3 partitions and no partition 9"),
        (("-X", "lingr.ms=1"), 1, "there is no setting 'lingr_ms': do you mean 'linger_ms'?"),
        (("-X", "max_request_size=50"), 1, "max_request_size"),
        (("--count", 0), 2, "0 is not in the range x>=1"),
    ],
)
def test_a_load_that_cannot_be_sent_is_an_error_with_a_remedy(
    target: CommandTarget, words: tuple[object, ...], status: int, text: str
) -> None:
    done = target.run("bench", "produce", target.topic(), *words)
    assert (done.exit_code, text in done.stderr) == (status, True), done.stderr


def test_bench_consume_reports_the_records_of_the_topic(target: CommandTarget) -> None:
    topic = target.topic()
    target.run("bench", "produce", topic, "--count", 25_000, "--bytes", 20, "--partition", 1)
    (row,) = target.rows("bench", "consume", topic)
    assert row["records"] == 25_000
    assert row["records_per_second"] == pytest.approx(25_000 / row["seconds"], rel=0.1)
    assert row["mb_per_second"] == pytest.approx(0.5 / row["seconds"], rel=0.1, abs=0.06)
    assert (row["latency_p50_ms"], row["latency_p99_ms"]) == (None, None)
    (row,) = target.rows("bench", "consume", topic, "--from", -100, "--partition", 1)
    assert row["records"] == 100


def test_bench_consume_measures_the_latency_of_records_that_are_produced_meanwhile(target: CommandTarget) -> None:
    topic = target.topic()
    command = target.command("bench", "consume", topic, "--follow", "--count", 500, "--json")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        target.run("bench", "produce", topic, "--count", 500, "--rate", 1000)
        output, errors = process.communicate(timeout=COMMAND_S_MAX)
    assert process.returncode == 0, errors
    assert seen_in([first.rstrip()]) == 0
    (row,) = json.loads(output)
    assert row["records"] == 500
    assert 0 < row["latency_p50_ms"] <= row["latency_p99_ms"] < 1000 * row["seconds"] * (1 + LATENCY_STEP) + 1


def test_bench_consume_keeps_to_its_time(target: CommandTarget) -> None:
    (row,) = target.rows("bench", "consume", target.topic(), "--follow", "--seconds", 1)
    assert row["records"] == 0
    assert 1 <= row["seconds"] < 10
