"""The job `replay`: the records of an archive in topics, each once, whatever happens in between."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest

from pykbroker.core.consumer.commits import CommitIdentity
from pykbroker.core.producer.murmur2 import partition_of_key
from pykbroker.core.producer.transactions.manager import TransactionManager
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.cluster import PipelineCluster
from pykbroker.pipeline.errors import PipelineError, StateConflict
from pykbroker.pipeline.jobs import archived as reading
from pykbroker.pipeline.jobs.commits import COMMITS, PENDING, ArchiveCommit, ArchiveCommits
from pykbroker.pipeline.jobs.replay import ReplaySettings, replay, write_target
from pykbroker.pipeline.report import JobReport
from pykbroker.pipeline.session import PipelineSession
from pykbroker.pipeline.storage import LocalStorage
from pykbroker.pipeline.writing.placement import spark_hash
from pykbroker.pipeline.writing.position import SourcePosition, committed_position
from pykbroker.pipeline.writing.task import WritePlan, write_batches
from pykbroker.pipeline.writing.writer import CLOSE_S_MAX, read_positions, read_settled_positions
from pykbroker.producer.settings import producer_settings
from pykbroker.producer.threaded import ThreadedProducer
from tests.interop.pipeline.archived_rows import (
    FIRST_TIME,
    Content,
    archived,
    content,
    table,
    topic_content,
    write_archive,
)
from tests.interop.pipeline.both_formats import BothFormats
from tests.interop.pipeline.marks import spark_marks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.interop.kafka_cluster import KafkaCluster

pytestmark = spark_marks()

SETTLED_S_MIN = 0.5
"""The time for which the positions of an open transaction are not answered: several times that of an answer."""


class Replays:
    """An archive, and replays of it into topics of the broker."""

    def __init__(self, formats: BothFormats, directory: Path) -> None:
        self.formats, self.directory = formats, directory
        self.rows: list[tuple[Any, ...]] = []
        self.said: list[str] = []

    def add(self, topic: str, partition: int, offsets: range) -> None:
        """Add records to the archive."""
        rows = archived(topic, partition, offsets)
        write_archive(self.directory, rows)
        self.rows += rows

    def run(self, **settings: Any) -> JobReport:
        """Replay the archive."""
        given = {"archive": str(self.directory), "bootstrap": self.formats.bootstrap, **settings}
        return replay(PipelineSession(self.formats.spark, "jvm", ""), ReplaySettings(**given), self.said.append)

    def topic(self, topic: str) -> list[Content]:
        """Return the committed records of a topic."""
        return topic_content(self.formats.bootstrap, topic)

    def wanted(self, keep: Callable[[tuple[Any, ...]], bool] = lambda row: True) -> list[Content]:
        """Return the content of the archive."""
        return content([row for row in self.rows if keep(row)])


@pytest.fixture
def replays(formats: BothFormats, tmp_path: Path) -> Replays:
    return Replays(formats, tmp_path / "archive")


def test_a_replay_keeps_everything_but_offsets(replays: Replays) -> None:
    """Offsets of the source have gaps, and the target has a partition more."""
    for partition, offsets in enumerate((range(500), range(40, 900, 3), range(7, 8))):
        replays.add("orders", partition, offsets)
    copy = replays.formats.topic(4)
    report = replays.run(target=copy)
    assert replays.topic(copy) == replays.wanted()
    assert (report.figures["records"], report.losses) == (len(replays.rows), [])


def test_a_second_replay_continues_with_what_the_archive_got_since(replays: Replays) -> None:
    copy = replays.formats.topic(2)
    replays.add("orders", 0, range(100))
    replays.run(target=copy)
    assert replays.run(target=copy).figures["records"] == 0
    replays.add("orders", 0, range(100, 150))
    replays.add("orders", 1, range(20))
    report = replays.run(target=copy)
    assert (report.figures["records"], report.figures["written_before"]) == (70, 100)
    assert replays.topic(copy) == replays.wanted()


def test_the_position_is_the_offset_of_the_next_record(replays: Replays) -> None:
    copy, name = replays.formats.topic(2), f"job-{uuid.uuid4().hex[:8]}"
    replays.add("orders", 1, range(10, 40, 2))
    replays.run(target=copy, job=name)
    cluster = PipelineCluster(replays.formats.bootstrap)
    found = cluster.committed(name, [TopicPartition(copy, index) for index in range(2)])
    assert {key.partition: each.offset for key, each in found.items()} == {1: 39}


def test_a_target_with_fewer_partitions_needs_a_partition_by_key(replays: Replays) -> None:
    for partition in range(3):
        replays.add("orders", partition, range(200))
    copy = replays.formats.topic(2)
    with pytest.raises(
        PipelineError, match=rf"topic {copy} has 2 partitions, and the archive 3: .* --partition-by key"
    ):
        replays.run(target=copy)
    for _ in range(2):
        assert replays.run(target=copy, partition_by="key").losses == []
    found = replays.topic(copy)
    assert sorted(each[2:] for each in found if each.value) == sorted(
        each[2:] for each in replays.wanted() if each.value
    )
    assert len(found) == 600
    assert all(each.partition == partition_of_key(each.key, 2) for each in found if each.key)
    for key in {each.key for each in found if each.key}:
        times = [each.timestamp for each in found if each.key == key and (each.value or b"").startswith(b"orders-1-")]
        assert times == sorted(times)


BOUNDS: list[tuple[dict[str, str], Callable[[Any], bool]]] = [
    ({"start": "50", "end": "80"}, lambda row: 50 <= row[4] < 80),
    ({"start": f"{FIRST_TIME.isoformat()}"}, lambda row: True),
    ({"end": "2025-11-25"}, lambda row: row[4] < 6),
    ({"start": "2025-11-25T00:00:10Z", "end": "2025-11-25T01:00:11+01:00"}, lambda row: 36 <= row[4] < 39),
    ({"start": '{"orders":{"1":95}}', "end": '{"orders":{"0":3}}'}, lambda row: row[4] < 3 or row[3:5] >= (1, 95)),
]


def test_bounds_select_records(replays: Replays) -> None:
    """The replays run at the same time, each into a topic of its own."""
    replays.rows = archived("orders", 0, range(100)) + archived("orders", 1, range(90, 100))
    write_archive(replays.directory, replays.rows)
    copies = [replays.formats.topic(2) for _ in BOUNDS]
    runs = [{"target": copy, **bounds} for copy, (bounds, _) in zip(copies, BOUNDS, strict=True)]
    reports = replays.formats.at_once(lambda settings: replays.run(**settings), runs)
    assert [report.losses for report in reports] == [[]] * len(BOUNDS)
    for copy, (bounds, keep) in zip(copies, BOUNDS, strict=True):
        assert replays.topic(copy) == replays.wanted(keep), bounds


def test_a_job_does_not_continue_with_other_bounds_or_in_a_new_topic(replays: Replays) -> None:
    replays.add("orders", 0, range(20))
    copy = replays.formats.topic(1)
    replays.run(target=copy, end="10")
    with pytest.raises(StateConflict, match="belongs to a job with until=10, not until=15: choose another name"):
        replays.run(target=copy, end="15")
    replays.run(target=copy, end="15", start="10", job=f"rest-of-{copy}")
    assert replays.topic(copy) == replays.wanted(lambda row: row[4] < 15)
    replays.formats.delete_topic(copy)
    replays.formats.topic(1, name=copy)
    assert replays.run(target=copy, end="10").figures["records"] == 10


def test_topics_keep_their_names_or_get_others(replays: Replays) -> None:
    orders, stock, moved = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("orders", "stock", "moved"))
    replays.add(orders, 0, range(10))
    replays.add(stock, 0, range(10, 30))
    with pytest.raises(PipelineError, match=rf"no topic .*copy-of-{orders}.* in cluster .*: create it first"):
        replays.run(target="copy-of-{topic}")
    replays.formats.topic(1, name=orders)
    replays.formats.topic(1, name=moved)
    report = replays.run(target="{topic}", renamed={stock: moved})
    assert report.figures["targets"] == sorted([orders, moved])
    assert replays.topic(orders) == replays.wanted(lambda row: row[2] == orders)
    assert replays.topic(moved) == replays.wanted(lambda row: row[2] == stock)
    with pytest.raises(PipelineError, match=f"{orders} and {stock} would both go to {moved}"):
        replays.run(target=moved)
    with pytest.raises(PipelineError, match="has no records of other between the bounds"):
        replays.run(target=moved, topics=("other",))


def test_a_failed_task_leaves_whole_transactions(replays: Replays) -> None:
    """The record at offset 60 is larger than the topic allows. After a change of the topic, the job goes on."""
    replays.add("orders", 0, range(60))
    large = [(None, b"x" * 3000, "orders", 0, 60, FIRST_TIME, 0, None)]
    write_archive(replays.directory, large, 1)
    replays.rows += large
    replays.add("orders", 0, range(61, 100))
    copy = replays.formats.topic(1, max_message_bytes="2000")
    settings = {"target": copy, "options": {"kafka.batch.size": "1000"}}
    with pytest.raises(
        PipelineError, match=rf"orders-0: the record at offset 60 cannot be written to {copy}: .*MESSAGE_TOO_L"
    ):
        replays.run(**settings)
    assert replays.topic(copy) == []
    replays.formats.configure(copy, max_message_bytes="1000000")
    assert replays.run(**settings).losses == []
    assert replays.topic(copy) == replays.wanted()


def test_an_offset_that_occurs_twice_in_the_archive_is_refused(replays: Replays) -> None:
    replays.add("orders", 0, range(20))
    write_archive(replays.directory, archived("orders", 0, range(7, 8)), 1)
    copy = replays.formats.topic(1)
    with pytest.raises(PipelineError, match="orders-0: the source has an offset twice: `pykbroker pipeline verify`"):
        replays.run(target=copy)
    assert replays.topic(copy) == []


def test_an_archive_with_half_a_batch_is_refused(replays: Replays, monkeypatch: pytest.MonkeyPatch) -> None:
    """The position would pass records whose file the archive gets later."""
    monkeypatch.setattr(reading, "SETTLING_S", 0.01)
    storage = LocalStorage(replays.directory)
    ArchiveCommits(storage).open("run-1", is_new=True)
    replays.add("orders", 0, range(10, 20))
    storage.write(f"{COMMITS}/0000000000{PENDING}", msgspec.json.encode(ArchiveCommit(0, {}, [], {})))
    with pytest.raises(PipelineError, match="has a batch that is half written: run `pykbroker pipeline archive` again"):
        replays.run(target=replays.formats.topic(1))


def test_a_topic_that_stamps_records_itself_is_named(replays: Replays) -> None:
    replays.add("orders", 0, range(3))
    copy = replays.formats.topic(1, message_timestamp_type="LogAppendTime")
    replays.run(target=copy)
    assert (
        f"replay: {copy} has message.timestamp.type=LogAppendTime, so records get the time of their replay"
        in replays.said
    )


def test_a_replay_has_a_rate(replays: Replays) -> None:
    """A rate divides transactions, so that none is open for long."""
    replays.add("orders", 0, range(60))
    copy = replays.formats.topic(1)
    assert replays.run(target=copy, rate=50.0).seconds > 1
    assert replays.topic(copy) == replays.wanted()


# ---- tasks beside each other


def plan_of(replays: Replays, copy: str, **settings: Any) -> WritePlan:
    given = ReplaySettings("a", replays.formats.bootstrap, target=copy)
    facts = PipelineCluster(replays.formats.bootstrap).facts(lambda name: name == copy)
    target = write_target(f"job-of-{copy}", "a", TopicPartition("orders", 0), copy, facts, given)
    return WritePlan({"bootstrap.servers": replays.formats.bootstrap}, (target,), **settings)


def batches(replays: Replays, *ranges: range) -> Iterator[Any]:
    """Yield Arrow batches as a task gets them."""
    rows = table(replays.rows)
    rows = rows.append_column("timestamp_ms", rows.column("timestamp").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()))
    rows = rows.select(["offset", "key", "value", "headers", "timestamp_ms"])
    rows = rows.append_column("source", pa.array([0] * len(rows), pa.int32())).combine_chunks()
    for each in ranges:
        yield from rows.slice(each.start, len(each)).to_batches()


def fence(replays: Replays, copy: str) -> None:
    """Write 300 records by a task, and by a second one that begins while the first has a transaction open."""
    plan = plan_of(replays, copy, transaction_rows=100)
    every = list(batches(replays, range(100), range(100, 150), range(150, 300)))
    seen: list[int] = []

    def slow() -> Iterator[Any]:
        yield every[0]  # a transaction of its own
        yield every[1]  # an open transaction
        seen.extend(map(len, write_batches(plan, every)))
        yield every[2]

    with pytest.raises(PipelineError, match=r"orders-0: another task has taken over"):
        list(write_batches(plan, slow()))
    assert seen == [1]


def test_the_last_positions_are_read_once_no_transaction_with_one_is_open(replays: Replays) -> None:
    """Kafka answers a commit before the position is there."""
    copy, bootstrap = replays.formats.topic(1), replays.formats.bootstrap
    target = plan_of(replays, copy).targets[0]
    position, settings = SourcePosition(150, 100), {"bootstrap.servers": bootstrap, "transactional.id": f"open-{copy}"}
    producer = ThreadedProducer("open", producer_settings(settings))
    producer.call(TransactionManager.init)
    producer.begin_transaction()
    offsets = {target.place.key: committed_position(position, target.facts)}
    producer.call(lambda manager: manager.send_offsets(offsets, CommitIdentity(target.place.group)))
    with ThreadPoolExecutor() as threads:
        cluster = PipelineCluster(bootstrap)
        settled = threads.submit(read_settled_positions, cluster, [target])
        assert read_positions(cluster, [target]) == [SourcePosition()]
        assert wait([settled], SETTLED_S_MIN).not_done
        producer.call(TransactionManager.commit)
        assert settled.result() == [position]
    producer.close(CLOSE_S_MAX)


def test_a_later_task_fences_an_earlier_one(replays: Replays) -> None:
    """A speculative task begins while the first one has a transaction open. Each record is written once."""
    replays.rows = archived("orders", 0, range(300))
    copy = replays.formats.topic(1)
    fence(replays, copy)
    assert replays.topic(copy) == replays.wanted()


def test_a_task_that_fails_is_repeated_from_its_last_transaction(replays: Replays) -> None:
    replays.rows = archived("orders", 0, range(300))
    copy = replays.formats.topic(1)
    plan = plan_of(replays, copy, transaction_rows=100)
    every = list(batches(replays, range(120), range(120, 180), range(180, 300)))

    def failing() -> Iterator[Any]:
        yield from every[:2]
        raise OSError("the executor has lost its disk")

    with pytest.raises(OSError, match="lost its disk"):
        list(write_batches(plan, failing()))
    assert len(replays.topic(copy)) == 120
    assert [batch.to_pydict() for batch in write_batches(plan, every)] == [{"source": [0], "records": [180]}]
    assert replays.topic(copy) == replays.wanted()


# ---- Apache Kafka


@pytest.fixture
def kafka_replays(spark: SparkSession, kafka_nodes: KafkaCluster, tmp_path: Path) -> Replays:
    """Return replays into three nodes of Apache Kafka."""
    bootstrap = ",".join(f"{host}:{port}" for host, port in kafka_nodes.bootstrap)
    return Replays(BothFormats(spark, bootstrap), tmp_path / "archive")


def test_a_replay_into_apache_kafka_writes_each_record_once(kafka_replays: Replays) -> None:
    for partition in range(3):
        kafka_replays.add("orders", partition, range(300))
    copy = kafka_replays.formats.topic(3)
    assert kafka_replays.run(target=copy, end="200").figures["records"] == 600
    assert kafka_replays.run(target=copy, end="200").figures["records"] == 0
    assert kafka_replays.run(target=copy, start="200", job=f"rest-of-{copy}").losses == []
    assert kafka_replays.topic(copy) == kafka_replays.wanted()


def test_apache_kafka_fences_an_earlier_task(kafka_replays: Replays) -> None:
    kafka_replays.rows = archived("orders", 0, range(300))
    copy = kafka_replays.formats.topic(1)
    fence(kafka_replays, copy)
    assert kafka_replays.topic(copy) == kafka_replays.wanted()


def test_the_placement_on_tasks_uses_the_hash_of_spark(formats: BothFormats) -> None:
    numbers = [0, 1, 2, 77, 12345, 2**31 - 1]
    row = formats.spark.sql(f"select {', '.join(f'hash({number})' for number in numbers)}").collect()[0]
    assert tuple(row) == tuple(map(spark_hash, numbers))
