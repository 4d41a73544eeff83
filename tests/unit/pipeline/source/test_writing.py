"""Rows to write: their columns, and the groups in which a producer sends them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pykbroker.pipeline.source.errors import InvalidColumn, InvalidOption
from pykbroker.pipeline.source.row_columns import ROWS_OF_A_BATCH, RowGroup, row_batches, row_groups
from pykbroker.pipeline.source.write_options import TYPES, WriteOptions, check_columns, write_options

NEEDED = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
HEADERS = TYPES["headers"][0]


def batch(**columns: list[Any]) -> pa.RecordBatch:
    header = pa.struct({"key": pa.string(), "value": pa.binary()})
    kinds = {"topic": pa.string(), "partition": pa.int32(), "headers": pa.list_(header)}
    return pa.record_batch({name: pa.array(found, kinds.get(name, pa.binary())) for name, found in columns.items()})


def groups(found: pa.RecordBatch, topic: str | None = None) -> list[RowGroup]:
    return list(row_groups(found, topic))


def test_rows_for_one_topic_stay_together() -> None:
    found = batch(value=[b"a", None], key=[b"k", None])
    assert groups(found, "t") == [RowGroup("t", None, [b"a", None], [b"k", None], None)]
    found = batch(value=[b"a", b"b"], key=[None, None], topic=["t", "t"], partition=[None, None])
    assert groups(found) == [RowGroup("t", None, [b"a", b"b"], None, None)]


def test_rows_are_grouped_by_topic_and_partition_in_their_order() -> None:
    found = batch(
        value=[b"a", b"b", b"c", b"d"],
        key=[b"1", b"2", b"3", b"4"],
        topic=["t", "u", "t", "t"],
        partition=[0, None, 1, 0],
        headers=[[], None, [("h", None)], [("h", b"x"), ("i", b"")]],
    )
    assert groups(found) == [
        RowGroup("t", 0, [b"a", b"d"], [b"1", b"4"], [(), (("h", b"x"), ("i", b""))]),
        RowGroup("u", None, [b"b"], [b"2"], [()]),
        RowGroup("t", 1, [b"c"], [b"3"], [(("h", None),)]),
    ]
    assert [(each.topic, each.partition) for each in groups(found, "x")] == [("x", 0), ("x", None), ("x", 1)]


def test_a_row_without_a_topic_and_a_header_without_a_key_are_refused() -> None:
    with pytest.raises(InvalidColumn, match="null topic present in the data"):
        groups(batch(value=[b"a", b"b"], topic=["t", None]))
    with pytest.raises(InvalidColumn, match="null header key present in the data"):
        groups(batch(value=[b"a"], headers=[[(None, b"x")]]), "t")


def test_single_rows_become_batches_of_the_columns_that_are_written() -> None:
    columns = [("other", "map<string,int>"), ("value", "binary"), ("headers", HEADERS), ("partition", "int")]
    rows: list[tuple[Any, ...]] = [({}, bytearray(b"a"), [("h", b"x")], 1), ({}, None, None, None)]
    (found,) = row_batches(rows, columns)
    assert found == batch(value=[b"a", None], headers=[[("h", b"x")], None], partition=[1, None])
    many = [(b"x",)] * (ROWS_OF_A_BATCH + 1)
    assert [len(each) for each in row_batches(many, [("value", "binary")])] == [ROWS_OF_A_BATCH, 1]
    assert list(row_batches([], columns)) == []


def test_columns_and_the_topic_are_checked() -> None:
    check_columns([("value", "string"), ("topic", "string"), ("headers", HEADERS)], WriteOptions({}))
    check_columns([("value", "binary"), ("topic", "int"), ("timestamp", "timestamp")], WriteOptions({}, "t"))
    with pytest.raises(
        InvalidColumn, match=r"partition attribute unsupported type bigint. partition must be a\(n\) int"
    ):
        check_columns([("value", "binary"), ("partition", "bigint")], WriteOptions({}, "t"))


def test_options_of_a_producer_are_checked() -> None:
    found = write_options({**NEEDED, "topic": " t ", "kafka.linger.ms": "7", "checkpointlocation": "/x"})
    assert (found.topic, found.producer["linger.ms"]) == ("t", "7")
    for given, message in (
        ({"topic": "t"}, "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer"),
        ({**NEEDED, "kafka.lingr.ms": "5"}, "kafka.lingr.ms"),
        ({**NEEDED, "kafka.transactional.id": "x"}, "tasks cannot share a transaction"),
    ):
        with pytest.raises(InvalidOption, match=message):
            write_options(given)
