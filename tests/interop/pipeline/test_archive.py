"""The job `archive`: each record once in Parquet and Iceberg, whatever happens to topics, brokers and checkpoints."""

from __future__ import annotations

import re
import shutil
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.errors import PipelineError, StateConflict
from pykbroker.pipeline.jobs import archived, iceberg, small_files
from pykbroker.pipeline.jobs.archive import ArchiveJob
from pykbroker.pipeline.jobs.archived import read_claims, with_archive
from pykbroker.pipeline.jobs.audit import AuditSettings, audit
from pykbroker.pipeline.jobs.commits import STAGING, ArchivedRange
from pykbroker.pipeline.jobs.compact import CompactSettings, compact
from pykbroker.pipeline.jobs.differences import read_ranges
from pykbroker.pipeline.jobs.table_batches import BATCH, ENDS, SUMS, TableBatch, history, loaded
from pykbroker.pipeline.jobs.table_sums import TableSums, noted_sums
from pykbroker.pipeline.jobs.verify import VerifySettings
from pykbroker.pipeline.report import ExitCode
from pykbroker.pipeline.schema import with_times
from tests.interop.pipeline.archive_jobs import Archives, running, wait_until
from tests.interop.pipeline.both_formats import PATIENCE_S, BothFormats, numbers
from tests.interop.pipeline.marks import spark_marks
from tools.broker_process import BrokerProcess

START_MS = 1_700_000_000_000
DAY_MS = 86_400_000
SOON: dict[str, Any] = {"fetchOffset_retryIntervalMs": 50}
"""The pause between the attempts at asking for the end of a topic that is gone, which is 1 s by default."""
FIGURES_OF_OFFSETS = ("deleted_by_retention", "never_archived", "offsets_without_records")

pytestmark = spark_marks()


def test_a_reader_of_the_bare_directory_sees_each_record_once(
    formats: BothFormats, archives: Archives, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = formats.topic()
    formats.feed(topic, [*numbers(0, 50), None, ""], 0, START_MS + 123)
    formats.feed(topic, numbers(50, 60), 1, START_MS + 2 * DAY_MS)
    source = archives.source(topic)
    report = archives.archive(source, "lake", file_bytes_min=0)
    assert (report.figures["records"], report.exit_code) == (62, ExitCode.DONE)
    assert archives.rows("lake") == formats.rows("kafka", subscribe=topic, includeHeaders="true")
    days = {path.parent.relative_to(archives.directory / "lake").as_posix() for path in archives.files("lake")}
    assert days == {f"topic={topic}/date=2023-11-14", f"topic={topic}/date=2023-11-16"}
    formats.feed(topic, numbers(60, 70), 1, START_MS)
    monkeypatch.setattr(small_files, "FILES_MIN", 2)
    assert archives.archive(source, "lake").figures["records"] == 10
    assert archives.archive(source, "lake").figures["records"] == 0
    rows = archives.rows("lake")
    assert rows == formats.rows("kafka", subscribe=topic, includeHeaders="true")
    assert archives.positions_by_duckdb("lake") == [row[2:5] for row in rows]
    assert len(archives.files("lake")) == 2  # the small files of a day are merged
    report = archives.verify(source, "lake")
    assert (report.losses, report.figures["records"], report.figures["not_archived_yet"]) == ([], 72, 0)
    assert not Path(archives.path("lake"), STAGING).exists()
    assert [each.name for each in archives.directory.iterdir()] == ["lake"]


def test_a_batch_is_one_snapshot_of_an_iceberg_table(formats: BothFormats, archives: Archives) -> None:
    topic = formats.topic()
    formats.feed(topic, numbers(0, 40), 0, START_MS)
    source, table = archives.source(topic, maxOffsetsPerTrigger=20), "lake/orders"
    report = archives.archive(source, table, format="iceberg")
    assert (report.figures["records"], report.figures["batches"]) == (40, 2)
    formats.feed(topic, [None, "x"], 1)
    assert archives.archive(source, table, format="iceberg").figures["records"] == 2
    snapshots = archives.spark.read.format("iceberg").load(f"{archives.path(table)}#snapshots").orderBy("committed_at")
    found = [row["summary"] for row in snapshots.collect()]
    assert [each["pykbroker.batch"] for each in found] == ["0", "1", "2"]
    assert found[-1]["pykbroker.ends"] == f'{{"{topic}":{{"0":40,"1":2}}}}'
    report = archives.verify(archives.source(topic), table, "iceberg")
    assert (report.losses, report.figures["records"], report.figures["not_archived_yet"]) == ([], 42, 0)
    archives.spark.sql(f"delete from {table_of(archives, table)} where offset >= 38")
    assert archives.verify(archives.source(topic), table, "iceberg").losses == [
        f"{topic}-0: 2 records are missing in the archive, between the offsets 38 and 39",
        f"{topic}-0: the archive's files have 38 records, and its commits 40",
    ]
    shutil.rmtree(archives.path(f"{table}.checkpoint"))
    with pytest.raises(StateConflict, match="was written by a run with another checkpoint"):
        archives.archive(source, table, format="iceberg")


def test_a_table_may_have_merged_files_and_expired_snapshots_but_no_lost_batches(
    formats: BothFormats, archives: Archives, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = formats.topic(1)
    formats.feed(topic, numbers(0, 20))
    source, table = archives.source(topic, maxOffsetsPerTrigger=10), "lake/orders"
    monkeypatch.setattr(small_files, "FILES_MIN", 2)
    archives.archive(source, table, format="iceberg")
    name = table_of(archives, table)
    now = loaded(archives.spark, name)
    assert now.currentSnapshot().operation() == "replace"  # the small files of both batches are merged
    assert now.currentSnapshot().summary()["total-data-files"] == "1"
    last = TableBatch(1, 20, {topic: {"0": 20}})  # 20 records of the merge
    assert history(loaded(archives.spark, name)).last == last
    merge = now.currentSnapshot()
    now.manageSnapshots().rollbackTo(now.snapshot(merge.parentId()).parentId()).commit()
    with pytest.raises(StateConflict, match="lacks batch 1, which the checkpoint has"):
        archives.archive(source, table, format="iceberg")
    now.manageSnapshots().setCurrentSnapshot(merge.snapshotId()).commit()
    now.newFastAppend().commit()  # a snapshot of other maintenance, which names no batch
    now.expireSnapshots().expireOlderThan(1 << 60).retainLast(1).commit()
    assert history(loaded(archives.spark, name)).last == last._replace(records=0)
    for path in Path(archives.path(f"{table}.checkpoint/spark/commits")).glob("*1*"):
        path.unlink()  # a kill before the commit of Spark
    now.updateProperties().remove(BATCH).remove(ENDS).commit()
    assert history(loaded(archives.spark, name)).last is None
    assert archives.archive(source, table, format="iceberg").figures["records"] == 0
    assert "archive: batch 1 is written already" in archives.lines
    formats.feed(topic, numbers(20, 30))
    assert archives.archive(source, table, format="iceberg").figures["records"] == 10
    report = archives.verify(archives.source(topic), table, "iceberg")
    assert (report.losses, report.figures["records"]) == ([], 30)
    assert sums_of(archives, table) == summed_rows(archives, table)


def test_the_sums_of_a_table_outlive_a_kill_before_they_are_noted(
    formats: BothFormats, archives: Archives, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = formats.topic()
    formats.feed(topic, numbers(0, 10))
    source, table = archives.source(topic), "lake/orders"
    with monkeypatch.context() as patch:
        patch.setattr(iceberg, "note_batch", Mock(side_effect=OSError("killed")))
        with pytest.raises(PipelineError, match="killed"):
            archives.archive(source, table, format="iceberg")
    assert noted_sums(loaded(archives.spark, table_of(archives, table))) == TableSums()
    assert sums_of(archives, table) == summed_rows(archives, table)
    formats.feed(topic, numbers(10, 15), 1)
    archives.archive(source, table, format="iceberg")
    now = loaded(archives.spark, table_of(archives, table))
    assert sums_of(archives, table) == summed_rows(archives, table)
    assert noted_sums(now).ranges() == list(sums_of(archives, table).values())
    read = with_archive(
        archives.spark, VerifySettings(None, archives.path(table), "iceberg"), "verify", lambda found: found, print
    )
    formats.feed(topic, numbers(15, 17), 1)
    archives.archive(source, table, format="iceberg")
    assert read.records.count() == sum(each.count for each in read.claims.ranges.values()) == 15  # of one snapshot
    now.refresh()
    now.updateProperties().remove(SUMS).commit()  # a table of before
    formats.feed(topic, numbers(20, 23), 0)
    archives.archive(source, table, format="iceberg")
    [said] = [line for line in archives.lines if "checksum" in line]
    assert "has no checksums of the batches up to 2" in said
    assert [(each.count, each.checksum) for each in sums_of(archives, table).values()] == [(13, None), (7, None)]
    assert archives.prove(table, "iceberg").losses == []
    archives.spark.sql(f"update {table_of(archives, table)} set value = binary('forged') where offset = 11")
    assert archives.prove(table, "iceberg").losses == [
        f"{topic}-0: between the offsets 10 and 12 the archive has other records than its commits"
    ]


def sums_of(archives: Archives, table: str) -> dict[TopicPartition, ArchivedRange]:
    return dict(read_claims(archives.spark, archives.path(table), "iceberg").ranges)


def summed_rows(archives: Archives, table: str) -> dict[TopicPartition, ArchivedRange]:
    found = read_ranges(with_times(archives.spark.table(table_of(archives, table))))
    return {TopicPartition(each.topic, each.partition): each for each in found}


def table_of(archives: Archives, table: str) -> str:
    from pykbroker.pipeline.jobs.iceberg import table_name

    return table_name(archives.spark, archives.path(table))


def test_transactions_are_archived_when_they_are_committed(formats: BothFormats, archives: Archives) -> None:
    topic = formats.topic(1)
    transactions = formats.transactional(topic)
    transactions.write(numbers(0, 5), "commit")
    transactions.write(numbers(5, 10), "abort")
    transactions.write(numbers(10, 15), "commit")
    transactions.write(numbers(15, 20))
    source = archives.source(topic)
    archives.archive(source, "lake")
    assert [row[1].decode() for row in archives.rows("lake")] == numbers(0, 5) + numbers(10, 15)
    report = archives.verify(source, "lake")
    assert (report.losses, report.figures["not_archived_yet"], report.figures["offsets_without_records"]) == ([], 0, 7)
    transactions.end("commit")
    everything = archives.source(topic, committed_only=False)
    archives.archive(everything, "all")
    assert [row[1].decode() for row in archives.rows("all")] == numbers(0, 20)
    assert archives.verify(everything, "all").losses == []
    with pytest.raises(StateConflict, match="belongs to a run with records=committed, not records=uncommitted"):
        archives.archive(everything, "lake")


def test_topics_and_partitions_may_appear_under_a_run(formats: BothFormats, archives: Archives) -> None:
    prefix = f"late-{uuid.uuid4().hex[:8]}"
    first = formats.topic(1, f"{prefix}-1")
    formats.feed(first, numbers(0, 10))
    formats.feed(formats.topic(1, f"not-{prefix}-1"), numbers(0, 10))
    source = archives.source(pattern=f"{prefix}-.*", kafka_metadata_max_age_ms=200, **SOON)
    with running(archives, source, "lake", file_bytes_min=0) as ended:
        wait_until(lambda: any("10 records" in line for line in archives.lines))
        second = formats.topic(2, f"{prefix}-2")
        formats.feed(second, numbers(0, 7), 1)
        admin = AdminClient({"bootstrap.servers": archives.bootstrap})
        admin.create_partitions([NewPartitions(first, 2)])[first].result(PATIENCE_S)
        formats.feed(first, numbers(10, 20), 1, linger_ms="0")  # a new producer knows the new partition
        wait_until(lambda: len(archives.rows("lake")) == 27)
        assert archives.verify(archives.source(first, second), "lake").losses == []
        formats.delete_topic(second)
        formats.topic(2, second)
        formats.feed(second, numbers(0, 30), 1, linger_ms="0")
        formats.feed(first, numbers(20, 30))
        error = ended()
    assert isinstance(error, PipelineError)
    assert "created again" in str(error)
    assert sum(row[2] == second for row in archives.rows("lake")) == 7
    with pytest.raises(StateConflict, match=f"topic {second} was deleted and created again since"):
        archives.archive(source, "lake")


def test_a_deleted_topic_ends_a_run_with_its_name(formats: BothFormats, archives: Archives) -> None:
    topic = formats.topic(1)
    formats.feed(topic, numbers(0, 10))
    with running(archives, archives.source(topic, **SOON), "lake") as ended:
        wait_until(lambda: bool(archives.lines))
        formats.delete_topic(topic)
        error = ended()
    assert f"topic {topic} was deleted during the run" in str(
        error if isinstance(error, PipelineError) else error.losses
    )
    with pytest.raises(PipelineError, match=f"no topic {topic} in cluster"):
        archives.archive(archives.source(topic), "lake")


def test_a_topic_is_left_out_on_request_and_goes_on_later(formats: BothFormats, archives: Archives) -> None:
    kept, other = formats.topic(1), formats.topic(1)
    for topic in (kept, other):
        formats.feed(topic, numbers(0, 10))
    archives.archive(archives.source(kept, other), "lake")
    with pytest.raises(PipelineError, match=f"topic {other} was archived before, and is left out now: to go on"):
        archives.archive(archives.source(kept), "lake")
    formats.feed(kept, numbers(10, 20))
    report = archives.archive(archives.source(kept, failOnDataLoss="false"), "lake")
    assert (report.losses, report.figures["records"]) == ([], 10)
    formats.feed(kept, numbers(20, 30))
    assert archives.archive(archives.source(kept), "lake").figures["records"] == 10
    report = archives.verify(archives.source(kept, other), "lake")
    assert (report.losses, report.figures["records"]) == ([], 40)
    formats.feed(other, numbers(10, 15))
    assert archives.archive(archives.source(kept, other), "lake").figures["records"] == 5
    assert f"archive: {other}-0 goes on at offset 10, up to which it was archived before" in archives.lines


def test_a_partition_that_a_batch_within_a_run_lacks_goes_on(
    formats: BothFormats, archives: Archives, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker with old metadata has hidden the partition. The table of before has neither sums nor old snapshots."""
    topic, place, begin, calls = formats.topic(2), "tables/lake", ArchiveJob._begin, list[int]()
    for partition in range(2):
        formats.feed(topic, numbers(0, 10), partition)
    archives.archive(archives.source(topic), place, format="iceberg")
    table = loaded(archives.spark, table_of(archives, place))
    table.newFastAppend().commit()  # a snapshot of other maintenance, which names no batch
    table.expireSnapshots().expireOlderThan(1 << 60).retainLast(1).commit()
    table.updateProperties().remove(SUMS).remove(BATCH).remove(ENDS).commit()
    plan = Path(archives.path(f"{place}.checkpoint/spark/offsets/0"))
    plan.write_text(re.sub(',"1":10|"1":10,', "", plan.read_text()))
    plan.with_name(".0.crc").unlink()
    formats.feed(topic, numbers(10, 15), 1)

    def late(job: ArchiveJob, starts: Any, **options: Any) -> bool:
        """Begin no partition before the first query."""
        calls.append(1)
        return len(calls) > 2 and begin(job, starts, **options)

    monkeypatch.setattr(ArchiveJob, "_begin", late)
    assert archives.archive(archives.source(topic), place, format="iceberg").figures["records"] == 5
    assert f"archive: {topic}-1 goes on at offset 10, up to which it was archived before" in archives.lines
    report = archives.verify(archives.source(topic), place, "iceberg")
    assert (report.losses, report.figures["records"]) == ([], 25)


def test_records_that_retention_has_deleted_are_a_loss(formats: BothFormats, archives: Archives) -> None:
    topic = formats.topic(1)
    formats.feed(topic, numbers(0, 10))
    source, lake = archives.source(topic), "lake [1]{2}*"  # Spark's readers take such names for patterns
    archives.archive(source, lake)
    archives.archive(source, "tables/lake", format="iceberg")
    formats.feed(topic, numbers(10, 30))
    formats.delete_records(topic, 20)
    report = archives.archive(source, lake)
    assert (report.exit_code, report.figures["records"]) == (ExitCode.LOSS, 0)
    assert report.losses == [
        f"{topic}-0: the offsets 10 to 19 are deleted, and the log begins at 20; if that is known, go on with the rest "
        "by --kafka failOnDataLoss=false"
    ]
    lost = [f"{topic}-0: the topic had deleted the offsets 10 to 19 before they were archived"]

    def go_on(place: tuple[str, Any]) -> None:
        name, format_ = place
        report = archives.verify(source, name, format_)  # no run has noticed it
        assert (report.losses, report.figures["never_archived"]) == (lost, 10)
        report = archives.archive(archives.source(topic, failOnDataLoss="false"), name, format=format_)
        assert (report.losses, report.exit_code, report.figures["records"]) == (lost, ExitCode.LOSS, 10)
        report = archives.verify(source, name, format_)
        assert (report.losses, report.exit_code) == (lost, ExitCode.LOSS)
        deleted, never, empty = (report.figures[each] for each in FIGURES_OF_OFFSETS)
        assert (deleted, never, empty) == (10, 10, 0)

    formats.at_once(go_on, [(lake, "parquet"), ("tables/lake", "iceberg")])
    report = audit(archives.session, AuditSettings(None, archives.path(lake)), archives.lines.append)
    assert (report.losses, report.exit_code) == (lost, ExitCode.LOSS)
    table = table_of(archives, "tables/lake")
    archives.spark.sql(f"update {table} set value = binary('forged') where offset = 3")  # before the start of the log
    assert archives.verify(source, "tables/lake", "iceberg").losses == [
        f"{topic}-0: between the offsets 0 and 29 the archive has other records than its commits",
        *lost,
    ]


def test_a_checkpoint_and_an_archive_must_fit(formats: BothFormats, archives: Archives) -> None:
    topic = formats.topic(1)
    formats.feed(topic, numbers(0, 10))
    source, checkpoint = archives.source(topic), archives.path("checkpoint")
    archives.archive(source, "lake", checkpoint=checkpoint)
    shutil.copytree(checkpoint, archives.path("old"))
    shutil.copytree(archives.path("lake"), archives.path("restored"))
    formats.feed(topic, numbers(10, 20))
    archives.archive(source, "lake", checkpoint=checkpoint)
    formats.feed(topic, numbers(20, 30))
    with pytest.raises(StateConflict, match="older than the archive"):
        archives.archive(source, "lake", checkpoint=archives.path("old"))
    with pytest.raises(StateConflict, match="belongs to a run with target="):
        archives.archive(source, "other", checkpoint=checkpoint)
    ours, archives.session = archives.session, archives.session._replace(connector="python")
    with pytest.raises(StateConflict, match="with connector=jvm, not connector=python: go on with --connector jvm"):
        archives.archive(source, "lake", checkpoint=checkpoint)
    archives.session = ours
    other = formats.topic(1)
    with pytest.raises(StateConflict, match=f"topic {topic} was archived before, and is left out now"):
        archives.archive(archives.source(other), "lake", checkpoint=checkpoint)
    shutil.move(archives.path("lake"), archives.path("moved"))
    shutil.move(archives.path("restored"), archives.path("lake"))
    with pytest.raises(StateConflict, match="lacks batch 1, which the checkpoint has"):
        archives.archive(source, "lake", checkpoint=checkpoint)
    shutil.rmtree(archives.path("lake"))
    with pytest.raises(StateConflict, match="is empty, but the checkpoint has the offsets of an archive there"):
        archives.archive(source, "lake", checkpoint=checkpoint)
    shutil.move(archives.path("moved"), archives.path("lake"))
    assert archives.archive(source, "lake", checkpoint=checkpoint).figures["records"] == 10
    assert archives.verify(source, "lake").losses == []


def test_an_archive_is_moved_with_its_checkpoint(formats: BothFormats, archives: Archives) -> None:
    topic = formats.topic(1)
    formats.feed(topic, numbers(0, 5))
    archives.archive(archives.source(topic), "lake")
    (archives.directory / "other").mkdir()
    (archives.directory / "lake").rename(archives.directory / "other/lake")
    formats.feed(topic, numbers(5, 8))
    with pytest.raises(StateConflict, match="give --moved if it was moved there from"):
        archives.archive(archives.source(topic), "other/lake")
    with pytest.raises(PipelineError, match="lake/_pykbroker/checkpoint has no checkpoint of this job"):
        archives.archive(archives.source(topic), "lake", is_moved=True)
    checkpoint = archives.path("other/lake/_pykbroker/checkpoint")
    with pytest.raises(StateConflict, match="lake is empty, but the checkpoint has the offsets"):
        archives.archive(archives.source(topic), "lake", checkpoint=checkpoint, is_moved=True)
    assert archives.archive(archives.source(topic), "other/lake", is_moved=True).figures["records"] == 3
    (archives.directory / "link").symlink_to("other/lake")
    formats.feed(topic, numbers(8, 9))
    assert archives.archive(archives.source(topic), "link").figures["records"] == 1
    assert archives.verify(archives.source(topic), "link").losses == []
    assert archives.count("link") == 9

    archives.archive(archives.source(topic), "ns/u", format="iceberg")
    for name in ("u", "u.checkpoint"):
        (archives.directory / "ns" / name).rename(archives.directory / "other" / name)
    with pytest.raises(StateConflict, match="has its files in .*/ns/u: move it back, write its metadata"):
        archives.archive(archives.source(topic), "other/u", format="iceberg", is_moved=True)


def test_a_run_that_cannot_write_stops_and_the_next_one_completes_it(
    formats: BothFormats, archives: Archives, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno
    import os

    topic = formats.topic(1)
    formats.feed(topic, numbers(0, 10))
    source = archives.source(topic)
    rename = Path.rename

    def full(path: Path, target: Path) -> Path:
        if path.suffix == ".parquet":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", full)
        with pytest.raises(PipelineError, match="No space left on device"):
            archives.archive(source, "lake")
    monkeypatch.setattr(archived, "SETTLING_S", 0.01)
    report = archives.verify(source, "lake")
    assert report.exit_code == ExitCode.LOSS
    assert any("a batch is only half in the archive" in line for line in archives.lines)
    lake, say = archives.path("lake"), archives.lines.append
    with pytest.raises(PipelineError, match="has a batch that is half written"):
        compact(archives.session, CompactSettings(lake, archives.path("state")), say)
    with pytest.raises(PipelineError, match="has a batch that is half written"):
        audit(archives.session, AuditSettings(None, lake), say)
    report = archives.archive(source, "lake")
    assert report.figures["records"] == 0
    assert "archive: batch 0 is written already" in archives.lines
    assert archives.verify(source, "lake").losses == []
    assert len(archives.rows("lake")) == 10


def test_a_run_goes_on_when_its_broker_is_back(
    spark: Any, start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    broker = start_broker()
    formats, archives = BothFormats(spark, broker.address), Archives(spark, broker.address, tmp_path)
    topic = formats.topic(1)
    formats.feed(topic, numbers(0, 10))
    with running(archives, archives.source(topic, kafka_reconnect_backoff_max_ms=100), "lake"):
        wait_until(lambda: len(archives.rows("lake")) == 10 if archives.lines else False)
        broker.kill()
        reachable = threading.Event()
        threading.Timer(1, reachable.set).start()
        assert reachable.wait(PATIENCE_S)
        broker.start()
        formats.feed(topic, numbers(10, 20), linger_ms="0")  # a new producer, which connects at once
        wait_until(lambda: len(archives.rows("lake")) == 20)
    assert archives.verify(archives.source(topic), "lake").losses == []
