"""Compacted topics of real clients, and a directory that pykbroker and Apache Kafka compact alternately."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import InvalidRecordError

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.storage.files.checkpoints import decode_offsets
from tests.interop.kafka_node import java, running_kafka
from tests.interop.metadata_pause import without_pause
from tests.interop.scenarios import CODECS
from tests.interop.test_kafka_directories import Content, Written, served
from tools.broker_process import BrokerProcess, set_options

pytestmark = pytest.mark.timeout(180)

KEYS, ROUNDS = 20, 12
COMPACT = {"internal.segment.bytes": "3000", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "1000000"}
TOPICS = {
    **{f"codec-{codec}": {**COMPACT, "cleanup.policy": "compact"} for codec in CODECS},
    "transactions": {**COMPACT, "cleanup.policy": "compact"},
    "both": {**COMPACT, "cleanup.policy": "compact,delete", "retention.ms": "-1"},
}
BACKOFF = {"log.cleaner.backoff.ms": "100"}
CLEANING_S_MAX = 60


def write(bootstrap: str, word: str) -> None:
    """Write every key many times, in transactions of which every second one is aborted.

    Some keys end with a tombstone.
    """
    with contextlib.ExitStack() as stack:

        def new_producer(**options: object) -> KafkaProducer:
            producer = KafkaProducer(bootstrap_servers=bootstrap, retry_backoff_ms=20, **options)
            return without_pause(stack.enter_context(contextlib.closing(producer)))

        producers = {topic: new_producer(linger_ms=5, **codec_of(topic)) for topic in TOPICS.keys() - {"transactions"}}
        for number in range(ROUNDS):
            for topic, producer in producers.items():
                put(producer, topic, f"{word} {number}")
            for producer in producers.values():
                producer.flush(CLEANING_S_MAX)
        transactional = new_producer(transactional_id=word)
        transactional.init_transactions()
        for number in range(ROUNDS):
            transactional.begin_transaction()
            put(transactional, "transactions", f"{word} {number}")
            (transactional.abort_transaction if number % 2 else transactional.commit_transaction)()
        last = new_producer()
        for _ in range(2):  # Two large records roll the active segments.
            for sent in [last.send(topic, bytes(2900), b"the end") for topic in TOPICS]:
                sent.get(CLEANING_S_MAX)


def codec_of(topic: str) -> dict[str, str]:
    """Return the options of the codec that a topic is named after."""
    codec = topic.removeprefix("codec-")
    return {"compression_type": codec} if codec in CODECS and codec != "none" else {}


def put(producer: KafkaProducer, topic: str, word: str) -> None:
    for key in range(KEYS):
        value = None if key % 5 == 0 and word.endswith(str(ROUNDS - 2)) else f"{word} {key}".encode()
        producer.send(topic, value, f"key {key}".encode())


def wait_cleaned(directory: Path) -> None:
    """Wait until all records below the active segments are compacted, according to the broker's cleaner checkpoint."""
    deadline = time.monotonic() + CLEANING_S_MAX
    while True:
        with contextlib.suppress(FileNotFoundError):
            cleaned = decode_offsets((directory / "cleaner-offset-checkpoint").read_bytes())
            if all(cleaned.get(TopicPartition(topic, 0)) == active(directory, topic) for topic in TOPICS):
                return
        assert time.monotonic() < deadline, f"the cleaner only reached {cleaned}"
        time.sleep(0.1)


def active(directory: Path, topic: str) -> int:
    """Return the base offset of the topic's newest segment."""
    return max(int(path.stem) for path in (directory / f"{topic}-0").glob("*.log"))


def view(content: Content) -> dict[tuple[str, int], dict[object, object]]:
    """Map each key to its last value."""
    last = {place: {record[1]: record[2] for record in records} for place, (_, _, records) in content.items()}
    return {place: {key: value for key, value in values.items() if value is not None} for place, values in last.items()}


def expected(word: str) -> dict[tuple[str, int], dict[bytes, bytes]]:
    """Map each key that `write` sends to its last value, which compaction must keep."""
    last = {topic: ROUNDS - 2 if topic == "transactions" else ROUNDS - 1 for topic in TOPICS}
    return {
        (topic, 0): {b"the end": bytes(2900)}
        | {
            b"key %d" % key: f"{word} {last[topic]} {key}".encode()
            for key in range(KEYS)
            if key % 5 or last[topic] != ROUNDS - 2
        }
        for topic in TOPICS
    }


@contextlib.contextmanager
def pykbroker(work: Path, directory: Path, settings: dict[str, str]) -> Iterator[BrokerProcess]:
    """Run pykbroker on this directory."""
    work.mkdir(exist_ok=True)
    broker = BrokerProcess(work, "--data-dir", str(directory), *set_options(settings))
    broker.start()
    try:
        yield broker
        assert broker.stop() == 0, broker.output()
    finally:
        broker.kill()
    assert "not compacted" not in broker.output()
    assert "offline" not in broker.output()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Return a directory that pykbroker has compacted twice."""
    work = tmp_path_factory.mktemp("ours")
    with pykbroker(work, work / "data", BACKOFF) as broker:
        with contextlib.closing(KafkaAdminClient(bootstrap_servers=broker.address)) as admin:
            admin.create_topics([NewTopic(name, 1, 1, topic_configs=configs) for name, configs in TOPICS.items()])
        for word in ("once", "twice"):
            write(broker.address, word)
            wait_cleaned(work / "data")
        return served(broker.address, work / "data")


@dataclass
class AlternateCompaction:
    """The content that Kafka found in pykbroker's directory, and the content after Kafka compacted it."""

    found: Written
    left: Written


@pytest.fixture(scope="module")
def kafkas(ours: Written, kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> AlternateCompaction:
    work = tmp_path_factory.mktemp("kafkas")
    shutil.copytree(ours.directory, work / "data")
    with running_kafka(work, kafka_jars, "log.cleaner.backoff.ms=100\n") as kafka:
        found = served(kafka.bootstrap, work / "data")
        write(kafka.bootstrap, "third")
        wait_cleaned(work / "data")
        return AlternateCompaction(found, served(kafka.bootstrap, work / "data"))


def test_compaction_keeps_the_last_value_of_each_key(ours: Written) -> None:
    assert view(ours.committed) == expected("twice")
    for topic in TOPICS:
        start, end, records = ours.committed[topic, 0]
        assert start == 0
        assert end > len(records) * 5
        assert len({record[1] for record in records}) >= KEYS
    assert len([one for one in ours.committed["both", 0][2] if one[2] is None]) == 0


def test_kafkas_dump_log_tool_finds_no_error(ours: Written, kafka_jars: Path) -> None:
    files = [
        str(path)
        for topic in TOPICS
        for path in sorted((ours.directory / f"{topic}-0").iterdir())
        if path.suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot") and path.stat().st_size
    ]
    output = subprocess.run(
        java(kafka_jars, "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(files)),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    heads = [line for line in output.stdout.splitlines() if line.startswith("baseOffset")]
    assert len(heads) > 2 * len(TOPICS)
    assert [line for line in heads if not line.endswith("isvalid: true")] == []
    assert any("deleteHorizonMs: OptionalLong[" in line for line in heads)
    for word in ("corrupt", "mismatch", "exception", "invalid:", "Found "):
        assert word not in output.stdout


def test_kafka_serves_a_log_that_pykbroker_compacted(ours: Written, kafkas: AlternateCompaction) -> None:
    assert kafkas.found.committed == ours.committed
    assert kafkas.found.uncommitted == ours.uncommitted


def test_pykbroker_serves_a_log_that_kafka_compacted_and_compacts_it_again(
    kafkas: AlternateCompaction, tmp_path: Path
) -> None:
    left = kafkas.left
    assert view(left.committed) == expected("third")
    with pykbroker(tmp_path / "first", left.directory, {"log.cleaner.enable": "false"}) as broker:
        again = served(broker.address, left.directory)
        assert again.committed == left.committed
        assert again.uncommitted == left.uncommitted
    with pykbroker(tmp_path / "second", left.directory, BACKOFF) as broker:
        write(broker.address, "fourth")
        wait_cleaned(left.directory)
        assert view(served(broker.address, left.directory).committed) == expected("fourth")


def test_a_kill_during_compaction_loses_no_value(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker("--set", "log.cleaner.backoff.ms=0")
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=broker.address)) as admin:
        admin.create_topics([NewTopic(name, 1, 1, topic_configs=configs) for name, configs in TOPICS.items()])
    for number in range(2):
        write(broker.address, f"life {number}")
        broker.kill()
        broker.restart()
        assert view(served(broker.address, Path()).committed) == expected(f"life {number}")


def test_a_record_without_a_key_is_refused(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker("--memory")
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=broker.address)) as admin:
        admin.create_topics([NewTopic("compacted", 1, 1, topic_configs={"cleanup.policy": "compact"})])
    with (
        contextlib.closing(KafkaProducer(bootstrap_servers=broker.address)) as producer,
        pytest.raises(InvalidRecordError),
    ):
        producer.send("compacted", b"value").get(CLEANING_S_MAX)
    with contextlib.closing(KafkaProducer(bootstrap_servers=broker.address)) as producer:
        assert producer.send("compacted", b"value", b"key").get(CLEANING_S_MAX).offset == 0
