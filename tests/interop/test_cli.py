"""The command line: start, refused start and end of a broker as a process, and the commands for a running broker."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, KafkaProducer

from tests.interop.one_process import run_here
from tools.broker_process import BrokerProcess

SECONDS_MAX = 55
TESTS_OF_A_USER = """
def test_a_fresh_topic_has_its_partitions(kafka_broker):
    from kafka import KafkaConsumer, KafkaProducer

    topic = kafka_broker.topic(partitions=2)
    producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap)
    assert producer.partitions_for(topic) == {0, 1}
    producer.send(topic, b"value", partition=1).get(timeout=20)
    producer.close()
    consumer = KafkaConsumer(topic, bootstrap_servers=kafka_broker.bootstrap, auto_offset_reset="earliest")
    assert next(consumer).value == b"value"
    consumer.close()


def test_it_is_the_same_broker_with_other_topics(kafka_broker):
    assert kafka_broker.topic("named") == "named"
    assert kafka_broker.topic() != kafka_broker.topic()


async def in_trio(kafka_broker):
    return kafka_broker.topic()


def test_it_can_be_asked_from_inside_of_a_loop(kafka_broker):
    import asyncio
    import trio

    assert trio.run(in_trio, kafka_broker) != asyncio.run(in_trio(kafka_broker))
"""


def run(*words: object, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    """Run `pykbroker ...` in this process."""
    result = run_here(*words, stdin=stdin)
    return subprocess.CompletedProcess([], result.exit_code, result.stdout, result.stderr)


def run_apart(*words: object, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    """Run `pykbroker ...` as a process to its end."""
    command = [sys.executable, "-m", "pykbroker", *map(str, words)]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=SECONDS_MAX)
    return subprocess.CompletedProcess([], done.returncode, done.stdout.decode(), done.stderr.decode())


def refused(*options: object) -> str:
    """Return the error message of a refused `pykbroker start`, after checking that it is the only output."""
    ended = run_apart("start", *options)
    assert (ended.returncode, ended.stdout) == (1, ""), ended.stderr
    assert "Traceback" not in ended.stderr
    (sentence,) = [line for line in ended.stderr.splitlines() if line.startswith("Error: ")]
    return sentence


def test_a_port_in_use_is_reported_with_a_remedy(broker, tmp_path):
    sentence = refused("--data-dir", tmp_path / "d", "--listen", broker.address)
    assert re.search(rf"\b{broker.port}\b.*--listen", sentence)


def test_a_directory_in_use_is_reported_with_a_remedy(start_broker, tmp_path):
    start_broker("--data-dir", str(tmp_path))
    sentence = refused("--data-dir", tmp_path, "--listen", "127.0.0.1:0")
    assert "another broker" in sentence
    assert str(tmp_path) in sentence


def test_a_directory_of_another_node_is_refused_and_not_changed(start_broker, tmp_path):
    start_broker("--data-dir", str(tmp_path)).stop()
    before = (tmp_path / "meta.properties").read_bytes()
    sentence = refused("--data-dir", tmp_path, "--listen", "127.0.0.1:0", "--set", "node.id=2")
    assert "node.id" in sentence
    assert str(tmp_path) in sentence
    assert (tmp_path / "meta.properties").read_bytes() == before
    assert start_broker("--data-dir", str(tmp_path)).stop() == 0


def test_a_directory_of_another_cluster_is_refused(start_broker, tmp_path):
    start_broker("--data-dir", str(tmp_path)).stop()
    meta = tmp_path / "meta.properties"
    meta.write_text(re.sub(r"cluster\.id=.*", "cluster.id=AAAAAAAAAAAAAAAAAAAAAA", meta.read_text()))
    assert "cluster" in refused("--data-dir", tmp_path, "--listen", "127.0.0.1:0")


def test_a_directory_that_cannot_be_created_is_refused(tmp_path):
    (tmp_path / "file").touch()
    assert "--data-dir" in refused("--data-dir", tmp_path / "file/d", "--listen", "127.0.0.1:0")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_broker_in_order(start_broker, number):
    broker = start_broker()
    assert broker.stop(number) == 0
    assert f"{signal.Signals(number).name}: stopping." in broker.output()


def test_topics_of_the_command_line_are_created_and_survive_a_restart(start_broker, tmp_path):
    options = ("--data-dir", str(tmp_path / "d"), "--topic", "orders:3", "--topic", "payments:1")
    broker = start_broker(*options)
    expected = "TOPIC     PARTITIONS  REPLICAS\norders    3           1\npayments  1           1\n"
    assert run("topics", "list", "--bootstrap", broker.address).stdout == expected
    broker.stop()
    broker.start()
    assert run("topics", "list", "--bootstrap", broker.address).stdout == expected


def test_topics_are_created_described_altered_and_deleted(shared_broker):
    there = ("--bootstrap", shared_broker.address)
    made = run("topics", "create", "a:2:retention.ms=5000", *there)
    assert (made.returncode, made.stdout) == (0, "Created the topic a with 2 partitions.\n")
    again = run("topics", "create", "a", *there)
    assert again.returncode == 1
    assert "TOPIC_ALREADY_EXISTS" in again.stderr
    assert run("topics", "create", "a", "--if-not-exists", *there).returncode == 0
    assert run("topics", "alter", "a", "--partitions", "3", *there).returncode == 0
    assert "INVALID_PARTITIONS" in run("topics", "alter", "a", "--partitions", "3", *there).stderr
    described = run("topics", "describe", "a", *there).stdout.splitlines()
    assert [line.split() for line in described] == [
        ["a", "retention.ms=5000"],
        ["PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR"],
        ["0", "1", "0", "1", "1"],
        ["1", "1", "0", "1", "1"],
        ["2", "1", "0", "1", "1"],
    ]
    some = run("topics", "describe", "absent", "a", "--json", *there)
    assert (some.returncode, [topic["topic"] for topic in json.loads(some.stdout)]) == (1, ["a"])
    assert "absent" in some.stderr
    assert run("topics", "delete", "a", *there).returncode == 0
    assert "UNKNOWN_TOPIC_OR_PARTITION" in run("topics", "delete", "a", *there).stderr


def test_the_ends_of_a_topic_are_printed_and_its_oldest_records_deleted(shared_broker):
    there = ("--bootstrap", shared_broker.address)
    assert run("topics", "create", "ends:2", *there).returncode == 0
    producer = KafkaProducer(bootstrap_servers=shared_broker.address)
    for timestamp_ms in (1_000, 2_000, 3_000, 4_000):
        producer.send("ends", b"value", partition=0, timestamp_ms=timestamp_ms).get(timeout=20)
    producer.close()

    def ends(*options):
        return [
            tuple(row.values())
            for row in json.loads(run("topics", "offsets", "ends", "--json", *options, *there).stdout)
        ]

    assert ends() == [(0, 0, 4), (1, 0, 0)]
    assert ends("--at", "1970-01-01T00:00:02.500+00:00") == [(0, 0, 4, 2), (1, 0, 0, None)]
    done = run("topics", "trim", "ends", "--before", "1", "--partition", "0", *there)
    assert (done.returncode, done.stdout) == (0, "Partition 0 of ends begins with offset 1 now.\n")
    assert run("topics", "trim", "ends", "--before", "1970-01-01T00:00:02.500+00:00", *there).returncode == 0
    assert ends() == [(0, 2, 4), (1, 0, 0)]
    beyond = run("topics", "trim", "ends", "--before", "3", *there)
    assert (beyond.returncode, beyond.stdout) == (1, "Partition 0 of ends begins with offset 3 now.\n")
    assert "partition 1 of ends: OFFSET_OUT_OF_RANGE" in beyond.stderr
    assert run("topics", "trim", "ends", "--before", "latest", *there).returncode == 0
    assert ends() == [(0, 4, 4), (1, 0, 0)]
    absent = run("topics", "trim", "ends", "--before", "1", "--partition", "2", *there)
    assert (absent.returncode, absent.stdout) == (1, "")
    assert "Topic 'ends' has no partition 2" in absent.stderr
    assert "UNKNOWN_TOPIC_OR_PARTITION" in run("topics", "offsets", "absent", *there).stderr


def test_a_bootstrap_list_is_tried_in_order(shared_broker):
    tried = run_apart("topics", "list", "-b", f"127.0.0.1:1,{shared_broker.address}")
    assert tried.returncode == 0, tried.stderr


def test_an_open_transaction_and_its_producer_are_described(shared_broker):
    there = ("--json", "--bootstrap", shared_broker.address)
    assert run("topics", "create", "paid", *there[1:]).returncode == 0
    producer = Producer({"bootstrap.servers": shared_broker.address, "transactional.id": "payer"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("paid", b"value")
    assert producer.flush(20) == 0
    (listed,) = [each for each in printed("transactions", "list", *there) if each["transactional_id"] == "payer"]
    assert listed["state"] == "Ongoing"
    (described,) = printed("transactions", "describe", "payer", *there)
    assert (described["producer_id"], described["partitions"]) == (listed["producer_id"], ["paid-0"])
    (active,) = printed("producers", "describe", "paid:0", *there)
    assert (active["producer_id"], active["transaction_start_offset"]) == (listed["producer_id"], 0)
    producer.commit_transaction(20)
    (described,) = printed("transactions", "describe", "payer", *there)
    assert (described["state"] in ("PrepareCommit", "CompleteCommit"), described["transactional_id"]) == (True, "payer")


def test_features_and_quotas_are_described(shared_broker):
    there = ("--json", "--bootstrap", shared_broker.address)
    levels = {each["feature"]: each["finalized_version_level"] for each in printed("features", "describe", *there)}
    assert levels["transaction.version"] == 2
    assert printed("quotas", "describe", *there) == []


def printed(*words: object) -> Any:
    """Return the JSON document that a command prints."""
    ended = run(*words)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_configs_and_sizes_are_printed(shared_broker):
    there = ("--bootstrap", shared_broker.address)
    assert run("topics", "create", "sized", "--set", "retention.ms=86400000", *there).returncode == 0
    described = run("configs", "describe", "topic", "sized", *there).stdout
    assert re.search(r"^retention.ms +86400000 +dynamic topic$", described, re.MULTILINE)
    described = run("configs", "describe", "broker", "1", "--all", *there).stdout
    assert re.search(r"^num.partitions +1 +default, read-only$", described, re.MULTILINE)
    assert "UNKNOWN_TOPIC" in run("configs", "describe", "topic", "absent", *there).stderr
    assert re.search(r"^sized +0 +0 +0 +no$", run("log-dirs", *there).stdout, re.MULTILINE)


def test_configs_are_changed_all_or_none(shared_broker):
    there = ("--bootstrap", shared_broker.address)
    assert run("topics", "create", "changed", "--set", "segment.ms=86400000", *there).returncode == 0
    change = ("configs", "alter", "topic", "changed", *there)
    assert run(*change, "--set", "retention.ms=5000", "--delete", "segment.ms", "--dry-run").returncode == 0
    describe = ("configs", "describe", "topic", "changed", *there)
    assert "retention.ms " not in run(*describe).stdout
    done = run(*change, "--set", "retention.ms=5000", "--delete", "segment.ms", "--append", "cleanup.policy=compact")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "3 changes to the configs of topic changed: made.\n"
    described = run(*describe).stdout
    assert re.search(r"^retention.ms +5000 +dynamic topic$", described, re.MULTILINE)
    assert re.search(r"^cleanup.policy +delete,compact +dynamic topic$", described, re.MULTILINE)
    assert "segment.ms " not in described
    refused = run(*change, "--set", "retention.ms=6000", "--set", "segment.ms=never")
    assert refused.returncode == 1
    assert "INVALID_CONFIG" in refused.stderr
    assert run(*describe).stdout == described
    everywhere = ("configs", "alter", "broker", *there)
    assert run(*everywhere, "--set", "log.retention.ms=7000").returncode == 0
    assert re.search(
        r"^log.retention.ms +7000 +dynamic default broker$",
        run("configs", "describe", "broker", *there).stdout,
        re.MULTILINE,
    )
    assert run(*everywhere, "--delete", "log.retention.ms").returncode == 0


def test_log_levels_change_while_a_broker_runs(shared_broker):
    there = ("--bootstrap", shared_broker.address)
    alter, describe = (("configs", word, "broker-logger", "1", *there) for word in ("alter", "describe"))
    assert run(*alter, "--set", "pykbroker.replica=debug").returncode == 0
    assert re.search(r"^pykbroker.replica +DEBUG +dynamic broker logger$", run(*describe).stdout, re.MULTILINE)
    assert run(*alter, "--delete", "pykbroker.replica").returncode == 0
    refused = run(*alter, "--set", "no.such=DEBUG")
    assert "Logger no.such does not exist!" in refused.stderr
    elsewhere = run("configs", "describe", "broker-logger", "7", *there)
    assert "there is no broker 7: the brokers that run are 1" in elsewhere.stderr


def test_prometheus_reads_the_metrics_of_a_broker(start_broker):
    broker = start_broker("--memory", "--topic", "a:2", "--console", "127.0.0.1:0", "--log-format", "json")
    assert run("topics", "list", "--bootstrap", broker.address).returncode == 0
    for _ in range(200):
        if found := re.search(r"metrics on (http://[\d.:]+/metrics)", broker.output()):
            break
        time.sleep(0.05)
    assert found is not None
    with urlopen(found[1], timeout=SECONDS_MAX) as answer:
        text = answer.read().decode()
    assert re.search(r'^pykbroker_requests_total{api="METADATA",version="\d+"} 1.0$', text, re.MULTILINE)
    assert "\nkafka_server_replicamanager_leadercount 2\n" in text
    lines = [json.loads(line) for line in broker.stderr.read_text().splitlines()]
    assert {"time", "level", "logger", "message"} == set(lines[0])
    assert broker.stop() == 0


def test_the_configs_of_a_server_properties_file_apply(
    start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        f"node.id=5\nlisteners=PLAINTEXT://:1\nlog.dirs={tmp_path / 'logs'}\nnum.partitions=4\n"
        "offsets.topic.replication.factor=1\n"
    )
    broker = start_broker("--config", str(file), "--data-dir", str(tmp_path / "d"))
    assert run("topics", "create", "a", "--bootstrap", broker.address).returncode == 0
    assert "a      4" in run("topics", "list", "--bootstrap", broker.address).stdout
    assert "node.id=5" in (tmp_path / "d/meta.properties").read_text()
    assert not (tmp_path / "logs").exists()


def test_the_pytest_fixture_is_available_to_a_project(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(TESTS_OF_A_USER)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert "3 passed" in ended.stdout, ended.stdout + ended.stderr


def test_a_reader_that_leaves_early_is_no_failure_of_the_broker(shared_broker):
    command = [sys.executable, "-m", "pykbroker", "configs", "describe", "broker", "1", "-b", shared_broker.address]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, errors) == (1, b"")


def produced(broker: BrokerProcess, topic: str, lines: bytes, *words: object) -> subprocess.CompletedProcess[str]:
    """Run `pykbroker produce` with these lines as its standard input."""
    return run("produce", topic, "-b", broker.address, *words, stdin=lines)


def consumed(broker: BrokerProcess, topic: str, count: int) -> list[Any]:
    """Return so many records of a topic, by partition and offset."""
    consumer = KafkaConsumer(topic, bootstrap_servers=broker.address, auto_offset_reset="earliest")
    found = [next(consumer) for _ in range(count)]
    consumer.close()
    return sorted(found, key=lambda record: (record.partition, record.offset))


def test_lines_of_the_standard_input_are_produced(shared_broker):
    words = ("produce", "lines", "-b", shared_broker.address, "--codec", "lz4")
    done = run_apart(*words, stdin=b"first\r\n\nlast")
    assert (done.returncode, done.stderr) == (0, "3 records were written to 'lines'.\n")
    assert [record.value for record in consumed(shared_broker, "lines", 3)] == [b"first", b"", b"last"]


def test_files_with_keys_are_produced_to_a_partition(shared_broker, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{name}=1\nplain {name}\n")
    run("topics", "create", "keyed", "--partitions", 3, "-b", shared_broker.address)
    files = (tmp_path / "a", tmp_path / "b")
    done = produced(shared_broker, "keyed", b"", *files, "--key-delimiter", "=", "--partition", 2)
    assert done.returncode == 0, done.stderr
    found = consumed(shared_broker, "keyed", 4)
    assert {record.partition for record in found} == {2}
    assert [(record.key, record.value) for record in found] == [
        (b"a", b"1"),
        (None, b"plain a"),
        (b"b", b"1"),
        (None, b"plain b"),
    ]


def test_json_lines_are_produced_up_to_the_first_that_is_no_record(shared_broker):
    first = b'{"key": "k", "value": {"x": 1}, "headers": {"h": "1"}, "timestamp": 7, "partition": 0}\n'
    for last, reason in ((b"no", "no JSON"), (b'{"partition": 1}', "topic 'json' has 1 partition and no partition 1")):
        lines = first + b'{"value": null, "key": "k"}\n' + last
        done = produced(shared_broker, "json", lines, "--json")
        assert done.returncode == 1
        assert f"line 3 of stdin: {reason}" in done.stderr
        assert "(2 records were written before)" in done.stderr
    first, second, *_ = consumed(shared_broker, "json", 4)
    assert (first.key, first.value, first.headers, first.timestamp) == (b"k", b'{"x":1}', [("h", b"1")], 7)
    assert (second.key, second.value) == (b"k", None)


def test_the_line_that_is_too_long_is_named(shared_broker):
    done = run_apart("produce", "long", "-b", shared_broker.address, stdin=b"short\n" + b"x" * 3_000_000)
    assert done.returncode == 1
    assert "line 2 of <stdin> is longer than max_request_size permits" in done.stderr


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (("--partition", 9), 1, "topic 'refused' has 1 partition and no partition 9 (0 records were written before)"),
        (("-X", "lingr.ms=1"), 1, "there is no setting 'lingr_ms': do you mean 'linger_ms'?"),
        (("-X", "linger"), 2, "-X 'linger' is no NAME=VALUE"),
        (("--json", "--key-delimiter", "="), 2, "leave out --key-delimiter and --partition"),
        (("--key-delimiter", ""), 2, "--key-delimiter must not be empty"),
        (("no-such-file",), 2, "No such file or directory"),
    ],
)
def test_records_that_cannot_be_produced_are_an_error_with_a_remedy(shared_broker, words, status, text):
    done = produced(shared_broker, "refused", b"line\n", *words)
    assert (done.returncode, text in done.stderr) == (status, True), done.stderr
