"""The job `verify` beside a running archive, without Spark and brokers: what happens meanwhile is no loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.cluster import ClusterFacts, LogEnds
from pykbroker.pipeline.jobs import archived as reading
from pykbroker.pipeline.jobs import verify as verifying
from pykbroker.pipeline.jobs.archived import ArchiveClaims, ArchiveReader
from pykbroker.pipeline.jobs.commits import ArchivedRange
from pykbroker.pipeline.jobs.proof import HeldRecords
from pykbroker.pipeline.jobs.verify import Comparison, VerifySettings, verify
from pykbroker.pipeline.reading import TopicsToRead
from pykbroker.pipeline.report import JobReport
from pykbroker.pipeline.session import PipelineSession

RANGES = {TopicPartition("t", index): ArchivedRange(index, 0, 9, 10, 5, topic="t") for index in range(2)}
ENDS = dict.fromkeys(RANGES, 10)
GONE = "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file:///lake/topic=t/x.parquet."
SESSION: Any = PipelineSession(None, "python", "")  # type: ignore[arg-type]


class Cluster:
    """A topic that gets a second partition after the first question for it."""

    def __init__(self) -> None:
        self.partitions = 0

    def facts(self, _: Callable[[str], bool]) -> ClusterFacts:
        self.partitions = min(self.partitions + 1, 2)
        return ClusterFacts("c", {"t": "id"}, {"t": self.partitions})

    def ends(self, facts: ClusterFacts) -> LogEnds:
        keys = list(RANGES)[: facts.partitions["t"]]
        return LogEnds(dict.fromkeys(keys, 0), dict.fromkeys(keys, 10))

    def compacted(self, _: object) -> frozenset[str]:
        return frozenset()


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> list[ArchiveReader]:
    """Return the readers of an archive in the order of their use. The records of each are a name."""
    claims = ArchiveClaims(ENDS, has_sums=True, ranges=RANGES, batches=list(RANGES.values()))
    found: list[ArchiveReader] = [
        ArchiveReader(claims, (), lambda: "old", lambda: True),  # type: ignore[arg-type,return-value]
        ArchiveReader(claims, (), lambda: "new", lambda: False),  # type: ignore[arg-type,return-value]
    ]
    monkeypatch.setattr(reading, "_reader", lambda *_: found.pop(0))
    monkeypatch.setattr(reading, "_of_topics", lambda records, _: records)
    monkeypatch.setattr(verifying, "archive_directory", lambda *_: "/lake")
    monkeypatch.setattr(verifying, "read_topic_ids", lambda *_: {})
    monkeypatch.setattr(verifying, "_unnamed", lambda *_: [])
    return found


def held_unless_old(records: Any, **_: object) -> HeldRecords:
    if records == "old":
        raise PySparkException(GONE)
    return HeldRecords(RANGES, has_strayed=False)


def proven() -> JobReport:
    return verify(SESSION, VerifySettings(None, "/lake", topics=()), lambda _: None)


def test_a_file_that_a_merge_has_replaced_is_no_loss(
    readers: list[ArchiveReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "held_records", held_unless_old)
    report = proven()
    assert (report.losses, report.figures["records"]) == ([], 20)
    assert readers == []


def test_a_file_that_is_gone_is_a_loss_and_a_broken_network_is_none(
    readers: list[ArchiveReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifying, "held_records", held_unless_old)
    readers[0] = readers[0]._replace(is_replaced=lambda: False)
    assert proven().losses == [f"a file of the archive cannot be read: /lake/topic=t/x.parquet: {GONE}"]

    def refused(*_: object, **__: object) -> None:
        raise PySparkException("org.apache.iceberg.exceptions.RuntimeIOException: Connection refused")

    monkeypatch.setattr(verifying, "held_records", refused)
    with pytest.raises(PySparkException, match="Connection refused"):
        proven()


def test_a_partition_that_is_new_since_the_first_question_is_known(
    readers: list[ArchiveReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TopicsToRead, "cluster", lambda _: Cluster())
    monkeypatch.setattr(verifying, "held_records", held_unless_old)
    monkeypatch.setattr(verifying, "_compared", lambda *_: Comparison([], 0))
    report = verify(SESSION, VerifySettings(TopicsToRead("h:1", ("t",)), "/lake"), lambda _: None)
    assert (report.losses, report.figures["partitions"]) == ([], 2)
