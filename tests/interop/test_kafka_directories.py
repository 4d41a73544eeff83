"""Tests of a directory that two brokers use: Kafka reads and extends pykbroker's logs, then pykbroker
reads them again.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    NewTopic,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.errors import KafkaError, SecurityDisabledError

from tests.interop.kafka_node import AUTHORIZER, USERS, java, running_kafka
from tests.interop.metadata_pause import without_pause
from tests.interop.scenarios import CODECS, Message, eventually, messages
from tools.broker_process import BrokerProcess, set_options

pytestmark = pytest.mark.timeout(180)

DUMPED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")
FIRST_OF_A_FILE = "  -1 is followed by "
ROUNDS = 4
READING_S_MAX = 60
SETTINGS = {
    **AUTHORIZER,
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "log.index.interval.bytes": "100",
    "log.retention.check.interval.ms": "200",
}
RETENTION_BYTES = 3000
TOPICS = {
    **{f"codec-{codec}": {} for codec in CODECS},
    "rolled": {"internal.segment.bytes": "1000"},
    "retained": {"internal.segment.bytes": "1000", "retention.bytes": str(RETENTION_BYTES)},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "recoded": {"compression.type": "zstd"},
    "shortened": {"internal.segment.bytes": "1000"},
    "deleted": {},
    "empty": {},
}
PARTITIONS = 2
EVERY_ACL = ACLFilter(
    None,
    None,
    ACLOperation.ANY,
    ACLPermissionType.ANY,
    ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
)

Records = list[tuple[object, ...]]
Content = dict[tuple[str, int], tuple[int, int, Records]]
"""The log start offset, log end offset and records of each partition."""


def read(bootstrap: str, isolation: str) -> Content:
    """Return everything that a consumer with this isolation level reads."""
    consumer = without_pause(
        KafkaConsumer(
            bootstrap_servers=bootstrap,
            enable_auto_commit=False,
            isolation_level=isolation,
            fetch_max_wait_ms=20,
            retry_backoff_ms=20,
        )
    )
    with contextlib.closing(consumer):
        places = [
            TopicPartition(topic, partition)
            for topic in sorted(consumer.topics())
            if not topic.startswith("__")
            for partition in sorted(consumer.partitions_for_topic(topic))
        ]
        consumer.assign(places)
        starts, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
        for place in places:
            consumer.seek(place, starts[place])
        content: Content = {(place.topic, place.partition): (starts[place], ends[place], []) for place in places}
        deadline = time.monotonic() + READING_S_MAX
        while any(consumer.position(place) < ends[place] for place in places):
            assert time.monotonic() < deadline, "the consumer does not reach the end of a partition"
            for place, found in consumer.poll(1000).items():
                content[place.topic, place.partition][2].extend(
                    (
                        record.offset,
                        record.key,
                        record.value,
                        tuple(record.headers),
                        record.timestamp,
                        record.timestamp_type,
                    )
                    for record in found
                )
    return content


def send(bootstrap: str, topics: Iterable[str], sent: list[Message], rounds: int = 1, **options: object) -> None:
    """Send through a new producer, in one batch for each partition and round."""
    producer = without_pause(KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, **options))
    with contextlib.closing(producer):
        for _ in range(rounds):
            for future in [produce(producer, topic, message) for topic in topics for message in sent]:
                future.get(READING_S_MAX)


def acl(principal: str) -> ACL:
    """Return an ACL of a prefix for this principal."""
    pattern = ResourcePattern(ResourceType.TOPIC, "codec-", ACLResourcePatternType.PREFIXED)
    return ACL(principal, "10.0.0.1", ACLOperation.READ, ACLPermissionType.DENY, pattern)


def acls(bootstrap: str) -> set[ACL]:
    """Return all ACLs of a cluster: none if it has no authorizer."""
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        try:
            found, _ = admin.describe_acls(EVERY_ACL)
        except SecurityDisabledError:
            return set()
    return set(found)


def change_acls(bootstrap: str, created: str, deleted: str) -> None:
    """Create an ACL for one principal, and delete that of another."""
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        assert admin.create_acls([acl(created)])["failed"] == []
        ((_, matched, _),) = admin.delete_acls([acl(deleted)])
        assert matched == [acl(deleted)]


def users(bootstrap: str) -> set[str]:
    """Return the users with SCRAM credentials."""
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        return set(admin.describe_user_scram_credentials())


def change_users(bootstrap: str, created: str, deleted: str | None = None) -> None:
    """Create a user, whose password is the name, and delete another one."""
    of = ScramMechanism.SCRAM_SHA_256
    changes: list[Any] = [UserScramCredentialUpsertion(created, of, created, 4096)]
    if deleted is not None:
        changes.append(UserScramCredentialDeletion(deleted, of))
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.alter_user_scram_credentials(changes)


def log_in(address: str, user: str) -> None:
    """Connect as a user who was made by `change_users`."""
    KafkaAdminClient(
        bootstrap_servers=address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_plain_username=user,
        sasl_plain_password=user,
    ).close()


def produce(producer: KafkaProducer, topic: str, message: Message) -> Any:
    return producer.send(
        topic, message.value, message.key, list(message.headers), message.partition, message.timestamp_ms
    )


def shorten(bootstrap: str, topic: str, offset: int) -> None:
    """Delete the records of the first partition below `offset` (DeleteRecords)."""
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.delete_records({TopicPartition(topic, 0): offset})


@dataclass
class Written:
    """A closed directory, the content that was last served from it at each isolation level, its ACLs and its users."""

    directory: Path
    committed: Content
    uncommitted: Content
    acls: set[ACL]
    users: set[str]


def served(bootstrap: str, directory: Path) -> Written:
    contents = read(bootstrap, "read_committed"), read(bootstrap, "read_uncommitted")
    return Written(directory, *contents, acls(bootstrap), users(bootstrap))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Return a directory with every kind of file that pykbroker writes, after one kill and one controlled shutdown."""
    work = tmp_path_factory.mktemp("ours")
    broker = BrokerProcess(work, "--data-dir", str(work / "data"), *set_options(SETTINGS))
    broker.start()
    try:
        run_until_killed(broker.address)
        broker.kill()
        broker.restart()
        run_until_stopped(broker.address)
        eventually(lambda: all(is_retained(work / "data" / f"retained-{index}") for index in range(PARTITIONS)))
        written = served(broker.address, work / "data")
        assert broker.stop() == 0, broker.output()
    finally:
        broker.kill()
    return written


def is_retained(directory: Path) -> bool:
    """Whether a partition has no segment left that `retention.bytes` lets the broker delete."""
    sizes = [path.stat().st_size for path in sorted(directory.glob("*.log"))]
    return sum(sizes[1:]) < RETENTION_BYTES


def run_until_killed(bootstrap: str) -> None:
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 1, topic_configs=configs) for name, configs in TOPICS.items()])
        assert admin.create_acls([acl(f"User:{name}") for name in ("first", "second")])["failed"] == []
    change_users(bootstrap, created="early")
    for codec in CODECS:
        send(bootstrap, [f"codec-{codec}"], messages(20), ROUNDS, compression_type=None if codec == "none" else codec)
    send(bootstrap, ["rolled", "retained", "shortened", "deleted"], messages(40), ROUNDS, enable_idempotence=True)


def run_until_stopped(bootstrap: str) -> None:
    send(bootstrap, ["rolled"], messages(60), enable_idempotence=True, compression_type="gzip")
    send(bootstrap, ["stamped", "recoded", "codec-none"], messages(20), enable_idempotence=True)
    with contextlib.suppress(KafkaError):  # raised by a broker without DeleteRecords
        shorten(bootstrap, "shortened", 33)
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.delete_topics(["deleted"])
    change_acls(bootstrap, created="User:third", deleted="User:first")
    change_users(bootstrap, created="alice", deleted="early")


@pytest.fixture
def dump(kafka_jars: Path) -> Callable[[Path], subprocess.CompletedProcess[str]]:
    """Return a function that runs Kafka's dump-log tool on a directory and checks the indexes against the logs."""

    def run(directory: Path) -> subprocess.CompletedProcess[str]:
        files = [
            str(path)
            for path in sorted(directory.rglob("*"))
            if path.suffix in DUMPED and path.stat().st_size and path.parent != directory
        ]
        command = java(
            kafka_jars, "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(files)
        )
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    return run


@pytest.fixture(scope="module")
def kafkas(ours: Written, kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Written, Written]:
    """Return copies of the directory as Kafka found it and as Kafka left it."""
    work = tmp_path_factory.mktemp("kafkas")
    shutil.copytree(ours.directory, work / "data")
    with running_kafka(work, kafka_jars) as kafka:
        found = served(kafka.bootstrap, ours.directory)
        log_in(kafka.users, "alice")
        run_in_kafka(kafka.bootstrap)
        left = served(kafka.bootstrap, work / "data")
    return found, left


def run_in_kafka(bootstrap: str) -> None:
    send(bootstrap, ["rolled"], messages(40), enable_idempotence=True, compression_type="lz4")
    shorten(bootstrap, "codec-none", 5)
    change_acls(bootstrap, created="User:fourth", deleted="User:third")
    change_users(bootstrap, created="bob", deleted="alice")
    with contextlib.closing(KafkaProducer(bootstrap_servers=bootstrap, transactional_id="t")) as producer:
        producer.init_transactions()
        for end in (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            for message in messages(10):
                produce(producer, "empty", message)
                produce(producer, "rolled", message)
            producer.flush(READING_S_MAX)
            end()


def test_kafkas_dump_log_tool_finds_no_error(
    ours: Written, dump: Callable[[Path], subprocess.CompletedProcess[str]]
) -> None:
    output = dump(ours.directory)
    heads = [line for line in output.stdout.splitlines() if line.startswith("baseOffset")]
    assert len(heads) > 100
    assert [line for line in heads if not line.endswith("isvalid: true")] == []
    complaints = [line for line in output.stderr.splitlines() if not line.startswith(("SLF4J", FIRST_OF_A_FILE))]
    assert [line for line in complaints if not line.startswith("Non-consecutive offsets in")] == []
    assert len(complaints) == output.stderr.count(FIRST_OF_A_FILE)
    for word in ("corrupt", "mismatch", "exception", "invalid:", "Found "):
        assert word not in output.stdout
    assert output.stdout.count("offset: ") > 1000
    assert output.stdout.count("Snapshot end offset") > 1


def test_pykbroker_has_written_every_kind_of_file(ours: Written) -> None:
    assert {topic for topic, _ in ours.committed} == TOPICS.keys() - {"deleted"}
    assert ours.committed == ours.uncommitted
    assert ours.committed["retained", 0][0] > 0
    assert ours.committed["rolled", 0][1] == len(ours.committed["rolled", 0][2]) == ROUNDS * 20 + 30
    assert len(list((ours.directory / "rolled-0").glob("*.log"))) > 3
    assert list((ours.directory / "__cluster_metadata-0").glob("*.checkpoint"))
    assert list(ours.directory.glob("deleted-*-delete"))
    segments = [path for topic in ours.committed for path in ours.directory.glob(f"{topic[0]}-{topic[1]}/*.log")]
    assert [path for path in segments if not path.with_suffix(".index").exists()] == []


def test_kafka_serves_the_directory_that_pykbroker_wrote(ours: Written, kafkas: tuple[Written, Written]) -> None:
    found, _ = kafkas
    assert found.committed == ours.committed
    assert found.uncommitted == ours.uncommitted
    assert found.acls == ours.acls == {acl("User:second"), acl("User:third")}
    assert found.users == ours.users == {"alice"}


def test_pykbroker_serves_the_directory_that_kafka_left(kafkas: tuple[Written, Written], tmp_path: Path) -> None:
    _, left = kafkas
    assert not list(left.directory.glob("*-stray"))
    assert (left.directory / ".kafka_cleanshutdown").exists()
    assert left.committed["codec-none", 0][0] == 5
    assert len(left.committed["empty", 0][2]) == 10
    assert len(left.uncommitted["empty", 0][2]) == 15
    assert left.acls == {acl("User:second"), acl("User:fourth")}
    assert left.users == {"bob"}
    options = ("--data-dir", str(left.directory), "--listen", "USERS=127.0.0.1:0", *set_options(AUTHORIZER | USERS))
    broker = BrokerProcess(tmp_path, *options)
    broker.start()
    try:
        assert read(broker.address, "read_committed") == left.committed
        assert read(broker.address, "read_uncommitted") == left.uncommitted
        assert acls(broker.address) == left.acls
        assert users(broker.address) == left.users
        log_in(str(broker.announced.listeners["USERS"]), "bob")
        send(broker.address, ["rolled"], messages(4), enable_idempotence=True)
        assert broker.stop() == 0
    finally:
        broker.kill()
    assert "offline" not in broker.output()
