"""The verdicts of `verify` without Spark, the files that are merged, and the places of tables."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.cluster import ClusterFacts, LogEnds
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs import small_files
from pykbroker.pipeline.jobs.commits import ArchivedRange
from pykbroker.pipeline.jobs.differences import ALONE, DIFFERENT, DOUBLE, MISSING, Difference
from pykbroker.pipeline.jobs.iceberg import is_directory, table_directory, table_name
from pykbroker.pipeline.jobs.small_files import crowded_days, merged_files, own_files
from pykbroker.pipeline.jobs.verify import (
    COMPARISONS_MAX,
    assigned,
    behind_the_end,
    comparable,
    count_losses,
    explained,
    figures,
    offsets,
    recreation,
    require_archived,
    require_partitions,
    with_still_logs,
)
from pykbroker.pipeline.reading import TopicsToRead
from pykbroker.pipeline.report import JobReport
from pykbroker.pipeline.storage import StoredFile

ONE, TWO, THREE = (TopicPartition("t", index) for index in range(3))
ENDS = LogEnds({ONE: 0, TWO: 20, THREE: 0}, {ONE: 100, TWO: 50, THREE: 10})
SPANS = {
    ONE: ArchivedRange(ONE.partition, 0, 89, 80, topic=ONE.topic),
    TWO: ArchivedRange(TWO.partition, 5, 49, 45, topic=TWO.topic),
}


def test_both_sides_are_compared_up_to_what_the_archive_claims() -> None:
    assert comparable(SPANS, {}, ENDS) == {ONE: (0, 90), TWO: (20, 50)}
    claimed = {ONE: 95, TWO: 50, THREE: 10}
    assert comparable(SPANS, claimed, ENDS) == {ONE: (0, 95), TWO: (20, 50), THREE: (0, 10)}
    assert comparable({ONE: ArchivedRange(ONE.partition, 0, 200, 201, topic=ONE.topic)}, {}, ENDS) == {ONE: (0, 100)}
    assert comparable({TWO: ArchivedRange(TWO.partition, 0, 10, 11, topic=TWO.topic)}, {THREE: 0}, ENDS) == {}


def test_figures_explain_what_is_missing() -> None:
    assert figures(SPANS, {ONE: 95}, ENDS) == {
        "records": 125,
        "partitions": 2,
        "not_archived_yet": 5 + 0 + 10,
        "deleted_by_retention": 15,
        "never_archived": 0,
        "offsets_without_records": 10,
    }


def test_an_archive_behind_the_end_of_the_log_is_a_loss() -> None:
    assert behind_the_end(SPANS, ENDS) == []
    assert behind_the_end({TWO: ArchivedRange(TWO.partition, 0, 50, 51, topic=TWO.topic)}, ENDS) == [
        "t-1: the archive has records up to offset 50, and the log ends at 50"
    ]


def test_partitions_that_the_cluster_lacks_are_refused() -> None:
    require_partitions([ONE], ENDS)
    with pytest.raises(PipelineError, match="the archive has t-7, which the cluster lacks"):
        require_partitions([ONE, TopicPartition("t", 7)], ENDS)


def test_topics_that_the_archive_lacks_are_refused() -> None:
    require_archived("/lake", ["t", "u"], ["u", "t", "v"])
    with pytest.raises(PipelineError, match="/lake has neither records nor commits of u: there is nothing to verify"):
        require_archived("/lake", ["t", "u"], ["t"])
    with pytest.raises(PipelineError, match="commits of t, u:"):
        require_archived("/lake", ["t", "u"], [])


def test_a_topic_that_was_created_again_is_named() -> None:
    facts = ClusterFacts("c", {"t": "2"}, {"t": 1})
    assert recreation({"t": "2"}, facts) == recreation({}, facts) == ""
    assert recreation({"t": "1"}, facts) == "topic t was deleted and created again since the archive began"


class Logs:
    """Logs whose starts are those of a list, one after the other, and reports of a comparison with them."""

    def __init__(self, starts: list[int], results: list[list[str] | Exception]) -> None:
        self.starts, self.results, self.compared = starts, results, list[int]()

    def ends(self) -> LogEnds:
        first = self.starts.pop(0) if len(self.starts) > 1 else self.starts[0]
        return LogEnds({ONE: first}, {ONE: 100})

    def compare(self, ends: LogEnds) -> JobReport:
        self.compared.append(ends.first[ONE])
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return JobReport("verify", {}, result)


GONE = PipelineError("some data may have been lost")


@pytest.mark.parametrize(
    ("starts", "results", "losses", "compared"),
    [
        ([0], [[]], [], [0]),
        ([0], [["x"]], ["x"], [0]),  # the logs are still
        ([0, 5], [[]], [], [0]),
        ([0, 5, 5], [["x"], []], [], [0, 5]),
        ([0, 5, 5], [GONE, []], [], [0, 5]),
        (list(range(99)), [["x"]] * COMPARISONS_MAX, ["x"], [0, 2, 4, 6, 8]),
    ],
)
def test_a_comparison_is_made_again_if_retention_deletes_records_meanwhile(
    starts: list[int], results: list[list[str] | Exception], losses: list[str], compared: list[int]
) -> None:
    logs = Logs(list(starts), list(results))
    assert with_still_logs(logs.ends, logs.compare).losses == losses
    assert logs.compared == compared


@pytest.mark.parametrize(
    ("starts", "error", "compared"), [([0], GONE, 1), ([0, 5], ValueError("x"), 1), (list(range(99)), GONE, 5)]
)
def test_another_error_of_a_comparison_is_raised(starts: list[int], error: Exception, compared: int) -> None:
    logs = Logs(list(starts), [error] * COMPARISONS_MAX)
    with pytest.raises(type(error)):
        with_still_logs(logs.ends, logs.compare)
    assert len(logs.compared) == compared


def test_differences_are_sentences() -> None:
    assert explained(
        [
            Difference("t", 0, MISSING, 1200, 3, 5000),
            Difference("t", 0, DOUBLE, 1, 4, 4),
            Difference("t", 1, ALONE, 2, 5, 6),
            Difference("t", 2, DIFFERENT, 1, 7, 7),
        ]
    ) == [
        "t-0: 1,200 records are missing in the archive, between the offsets 3 and 5000",
        "t-0: the record at offset 4 is in the archive more than once",
        "t-1: 2 records are in the archive alone, between the offsets 5 and 6",
        "t-2: the record at offset 7 differs from that of the topic",
    ]


def test_files_and_commits_must_have_the_same_numbers() -> None:
    assert count_losses(SPANS, SPANS) == []
    claimed = {
        key: ArchivedRange(key.partition, 0, 89, count, topic=key.topic) for key, count in ((ONE, 81), (THREE, 1))
    }
    assert count_losses(claimed, SPANS) == [
        "t-0: the archive's files have 80 records, and its commits 81",
        "t-1: the archive's files have 45 records, and its commits 0",
        "t-2: the archive's files have 0 records, and its commits 1",
    ]


def test_limits_become_options_of_the_format() -> None:
    source = TopicsToRead("h:1", ("t",), options={"kafka.max.poll.records": "5"})
    found = assigned(source, [TWO, ONE]).connector_options()
    assert (found["assign"], found["kafka.max.poll.records"], "subscribe" in found) == ('{"t":[0,1]}', "5", False)
    assert offsets({ONE: (0, 95), TWO: (20, 50)}) == {
        "startingOffsets": '{"t":{"0":0,"1":20}}',
        "endingOffsets": '{"t":{"0":95,"1":50}}',
    }


def test_the_files_of_others_are_never_merged() -> None:
    day, unnamed = "topic=a/date=1", ["batch-3-0.parquet", "part-0-c000.parquet"]
    others = [
        "reports/part-0.parquet",
        "exports/2024/part-0.parquet",
        f"{day}/mine.parquet",
        f"{day}/sub/part-0.parquet",
    ]
    named = f"{day}/renamed.parquet"
    paths = [named, *others, *(f"{day}/{name}" for name in unnamed)]
    listed = [StoredFile(path, 1) for path in paths]
    assert [each.path for each in own_files(listed, {named}, has_unnamed=False)] == [named]
    assert [each.path for each in own_files(listed, {named}, has_unnamed=True)] == [named, *paths[-2:]]


def test_days_with_several_small_files_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    assert crowded_days([StoredFile(f"topic=a/date=1/{each}.parquet", 1) for each in range(9)], 100) == {}
    monkeypatch.setattr(small_files, "FILES_MIN", 2)
    files = [
        StoredFile("topic=a/date=1/x.parquet", 10),
        StoredFile("topic=a/date=1/y.parquet", 99),
        StoredFile("topic=a/date=1/large.parquet", 100),
        StoredFile("topic=a/date=2/x.parquet", 10),
        StoredFile("topic=a/date=2/large.parquet", 500),
        StoredFile("_pykbroker/x.parquet", 1),
        StoredFile("_pykbroker/y.parquet", 1),
        StoredFile("topic=a/date=3/notes", 1),
        StoredFile("topic=a/date=3/more", 1),
    ]
    assert crowded_days(files, 100) == {"topic=a/date=1": files[:2]}
    assert crowded_days(files, 10) == {}


@pytest.mark.parametrize(("sizes", "files"), [([1, 1], 1), ([99] * 7, 1), ([99] * 20, 2), ([99, 99], 1)])
def test_merged_files_have_a_multiple_of_the_smallest_size(sizes: list[int], files: int) -> None:
    assert merged_files(sizes, 100) == files


@pytest.mark.parametrize(
    ("place", "parts"),
    [
        ("/data/lake/orders", ("/data", "lake", "orders")),
        ("/data/warehouse/lake/orders", ("/data/warehouse", "lake", "orders")),
        ("hdfs://host:8020/data/lake/orders", ("hdfs://host:8020/data", "lake", "orders")),
        ("s3a://bucket/lake/orders/", ("s3a://bucket", "lake", "orders")),
        ("file:/data/lake/orders", ("file:/data", "lake", "orders")),
    ],
)
def test_a_table_lies_in_a_namespace_of_a_warehouse(place: str, parts: tuple[str, str, str]) -> None:
    assert is_directory(place)
    assert table_directory(place) == parts


def test_a_relative_directory_of_a_table_is_below_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    configuration, settings = SimpleNamespace(get=lambda *_: "file:///"), dict[str, str]()
    jsc = SimpleNamespace(hadoopConfiguration=lambda: configuration)
    spark: Any = SimpleNamespace(_jsc=jsc, conf=SimpleNamespace(set=settings.__setitem__))
    assert table_name(spark, "lake/orders").endswith(".`lake`.`orders`")
    assert str(tmp_path) in settings.values()


def test_a_table_needs_a_warehouse_and_a_namespace() -> None:
    assert not is_directory("catalog.lake.orders")
    with pytest.raises(PipelineError, match="needs two directories above it, as in /data/lake/orders"):
        table_directory("/lake/orders")
