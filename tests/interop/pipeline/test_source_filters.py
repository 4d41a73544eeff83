"""Filters that Spark pushes down to the format `pykbroker`, in versions of Spark that do so (4.1)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import DataSourceReader

from tests.interop.pipeline.both_formats import FORMATS, BothFormats, numbers, plain
from tests.interop.pipeline.marks import spark_marks

START_MS = 1_700_000_000_000

pytestmark = [
    *spark_marks(),
    pytest.mark.skipif(not hasattr(DataSourceReader, "pushFilters"), reason="this Spark pushes no filters down"),
]


@pytest.fixture(autouse=True)
def pushdown(formats: BothFormats) -> Iterator[None]:
    """Let Spark push filters down."""
    formats.spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield
    formats.spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")


@pytest.mark.parametrize(
    ("condition", "tasks", "rows"),
    [
        ("partition = 1", 1, 10),
        ("partition IN (0, 2) AND offset >= 5 AND offset < 7", 2, 4),
        ("topic = 'none'", 0, 0),
        ("partition = 0 AND timestamp >= TIMESTAMP '{noon}'", 1, 6),
        ("partition = 0 AND timestamp < TIMESTAMP '{noon}'", 1, 4),
        ("value = '00003'", 3, 1),
        ("key IS NULL AND partition <> 1", 3, 8),
    ],
)
def test_a_filter_narrows_a_query_and_changes_no_row(
    formats: BothFormats, condition: str, tasks: int, rows: int
) -> None:
    topic = formats.topic(3)
    for partition in range(3):
        formats.feed(topic, numbers(partition * 10, partition * 10 + 10), partition, START_MS)
    noon = datetime.fromtimestamp(START_MS / 1000 + 4, UTC).isoformat()
    theirs, ours = (formats.frame(kind, subscribe=topic).where(condition.format(noon=noon)) for kind in FORMATS)
    found = sorted(map(plain, ours.collect()), key=repr)
    assert found == sorted(map(plain, theirs.collect()), key=repr)
    assert (len(found), ours.rdd.getNumPartitions()) == (rows, max(tasks, 1))
