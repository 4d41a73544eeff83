"""Arrow tables: what a producer sends of them, and the table of fetched records."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykbroker.client.arrow import arrow_table, columns_of, is_table
from pykbroker.core.consumer.records import FetchedColumns
from pykbroker.core.topic_partition import TopicPartition
from wire.records.column_reader import Columns

NOW_MS = 1_700_000_000_000
HEADERS = pa.map_(pa.string(), pa.binary())


def values_of(column: Any) -> list[bytes | None]:
    """Return the values that are sent of a table with this column only."""
    return columns_of(pa.table({"value": column}), NOW_MS).values


class TestSent:
    """The columns of a table that is sent."""

    @pytest.mark.parametrize(
        "kind",
        [
            pa.binary(),
            pa.large_binary(),
            pa.binary_view(),
            pa.string(),
            pa.large_string(),
            pa.string_view(),
            pa.dictionary(pa.int32(), pa.string()),
        ],
        ids=str,
    )
    def test_binary_and_string_columns_with_nulls_become_bytes(self, kind: pa.DataType) -> None:
        column = pa.array(["a", None, "", "é"], pa.string()).cast(kind)
        assert values_of(column) == [b"a", None, b"", "é".encode()]

    def test_values_of_a_fixed_size_become_bytes(self) -> None:
        assert values_of(pa.array([b"abc", None], pa.binary(3))) == [b"abc", None]

    def test_a_column_of_nulls_becomes_tombstones(self) -> None:
        sent = columns_of(pa.table({"key": [b"a", b"b"], "value": pa.nulls(2)}), NOW_MS)
        assert (sent.keys, sent.values) == ([b"a", b"b"], [None, None])

    def test_a_relation_of_duckdb_is_a_table(self) -> None:
        with duckdb.connect() as database:
            relation = database.sql(
                "SELECT 'k' || i AS key, nullif(i, 1) || '' AS value, i AS timestamp FROM range(3) t(i)"
            )
            assert is_table(relation)
            sent = columns_of(relation, NOW_MS)
        assert (sent.keys, sent.values) == ([b"k0", b"k1", b"k2"], [b"0", None, b"2"])
        assert list(sent.timestamps or ()) == [0, 1, 2]

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.lists(st.none() | st.binary(max_size=9), max_size=8), max_size=5), st.data())
    def test_chunks_and_slices_keep_their_rows(self, chunks: list[list[bytes | None]], data: st.DataObject) -> None:
        rows = [row for chunk in chunks for row in chunk]
        start = data.draw(st.integers(0, len(rows)))
        length = data.draw(st.integers(0, len(rows)))
        column = pa.chunked_array([pa.array([b"skipped", *chunk], pa.binary())[1:] for chunk in chunks], pa.binary())
        assert values_of(column.slice(start, length)) == rows[start : start + length]

    def test_a_record_batch_and_an_empty_table_are_accepted(self) -> None:
        assert columns_of(pa.record_batch({"value": [b"a"]}), NOW_MS).values == [b"a"]
        assert columns_of(pa.table({"value": pa.array([], pa.binary())}), NOW_MS) == ([], None, None, None)

    def test_the_index_of_a_pandas_data_frame_is_ignored(self) -> None:
        assert columns_of(pa.table({"value": [b"a"], "__index_level_0__": [7]}), NOW_MS).values == [b"a"]

    @pytest.mark.parametrize(
        ("column", "sent"),
        [
            (pa.array([5, None], pa.int64()), [5, NOW_MS]),
            (pa.array([5, None], pa.timestamp("ms")), [5, NOW_MS]),
            (pa.array([5_999, None], pa.timestamp("us")), [5, NOW_MS]),
            (pa.array([5_999_999, 7_000_000], pa.timestamp("ns", "Europe/Berlin")), [5, 7]),
            (pa.array([5, 7], pa.timestamp("s", "UTC")), [5_000, 7_000]),
        ],
        ids=lambda given: str(getattr(given, "type", "")),
    )
    def test_timestamps_of_any_unit_become_milliseconds(self, column: Any, sent: list[int]) -> None:
        assert columns_of(pa.table({"value": [b"a", b"b"], "timestamp": column}), NOW_MS).timestamps == sent

    def test_headers_may_repeat_a_name_and_have_null_values(self) -> None:
        rows = [[("a", b"1"), ("a", None)], None, []]
        table = pa.table({"value": [b""] * 3, "headers": pa.array(rows, HEADERS)})
        assert columns_of(table, NOW_MS).headers == [(("a", b"1"), ("a", None)), (), ()]

    @pytest.mark.parametrize(
        ("column", "text"),
        [
            ({"value": [1]}, "the column 'value' is of type int64: pass binary or string"),
            ({"key": [[b"a"]]}, "the column 'key' is of type list<.*>: pass binary or string"),
            ({"timestamp": ["now"]}, "the column 'timestamp' is of type string: pass timestamp or, for ms since 1970"),
            ({"timestamp": [1.5]}, "the column 'timestamp' is of type double"),
            ({"headers": [b"a"]}, "the column 'headers' is of type binary: pass map<string, binary>"),
        ],
    )
    def test_a_column_of_a_wrong_type_is_refused(self, column: dict[str, list[Any]], text: str) -> None:
        with pytest.raises(TypeError, match=text):
            columns_of(pa.table({"value": [b""]} | column), NOW_MS)

    @pytest.mark.parametrize(
        ("table", "text"),
        [
            (pa.table({"key": [b"a"]}), r"the table has no column 'value': its columns are \['key'\]"),
            (pa.table({"value": [b"a"], "offset": [1]}), "'offset', which cannot be sent: select only value, key"),
            (pa.table([[b"a"], [b"b"]], names=["value", "value"]), "the table has the column 'value' 2 times"),
        ],
    )
    def test_other_columns_are_refused(self, table: pa.Table, text: str) -> None:
        with pytest.raises(ValueError, match=text):
            columns_of(table, NOW_MS)

    def test_only_tables_are_tables(self) -> None:
        assert is_table(pa.table({"value": [b"a"]}))
        assert is_table(pa.record_batch({"value": [b"a"]}))
        assert not any(is_table(each) for each in ([b"a"], (b"a",), pa.array([b"a"]), pa.chunked_array([[b"a"]])))


def fetched(topic: str, partition: int, *rows: tuple[int, bytes | None, bytes | None], headers: Any = None) -> Any:
    """Return a fetched batch of rows with an offset, a key and a value."""
    offsets, keys, values = (list(column) for column in zip(*rows, strict=True))
    columns = Columns(offsets, [NOW_MS + offset for offset in offsets], keys, values, headers)
    return FetchedColumns(TopicPartition(topic, partition), columns, 0, 5)


class TestFetched:
    """The table of fetched records."""

    def test_the_rows_of_all_batches_follow_each_other(self) -> None:
        headers = [(("name", b"1"), ("name", None)), ()]
        table = arrow_table(
            [
                fetched("a", 1, (7, None, b"x"), (9, b"k", None)),
                fetched("b", 0, (0, b"", b""), (1, None, None), headers=headers),
            ]
        )
        table.validate(full=True)
        assert table.drop_columns("timestamp").to_pylist() == [
            {"topic": "a", "partition": 1, "offset": 7, "key": None, "value": b"x", "headers": []},
            {"topic": "a", "partition": 1, "offset": 9, "key": b"k", "value": None, "headers": []},
            {"topic": "b", "partition": 0, "offset": 0, "key": b"", "value": b"", "headers": list(headers[0])},
            {"topic": "b", "partition": 0, "offset": 1, "key": None, "value": None, "headers": []},
        ]
        assert table["timestamp"].cast(pa.int64()).to_pylist() == [NOW_MS + each for each in (7, 9, 0, 1)]

    def test_the_schema_is_the_same_without_records(self) -> None:
        empty, one = arrow_table([]), arrow_table([fetched("a", 0, (0, None, b"x"))])
        assert len(empty) == 0
        assert empty.schema == one.schema == pa.concat_tables([empty, one]).schema
        assert {name: str(kind) for name, kind in zip(one.schema.names, one.schema.types, strict=True)} == {
            "topic": "string",
            "partition": "int32",
            "offset": "int64",
            "timestamp": "timestamp[ms, tz=UTC]",
            "key": "binary",
            "value": "binary",
            "headers": "map<string, binary>",
        }

    def test_a_fetched_table_can_be_sent(self) -> None:
        headers = [(("name", b"1"),), ()]
        table = arrow_table([fetched("a", 0, (3, b"k", b"x"), (4, None, None), headers=headers)])
        sent = columns_of(table.select(["value", "key", "headers", "timestamp"]), 0)
        assert sent == ([b"x", None], [b"k", None], headers, [NOW_MS + 3, NOW_MS + 4])


WITHOUT_PYARROW = """
import sys
sys.modules["pyarrow"] = None
from pykbroker.client.arrow import arrow_table
try:
    arrow_table([])
except ImportError as error:
    print(error)
"""


def test_a_missing_pyarrow_is_named_with_the_command_that_installs_it() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_PYARROW], capture_output=True, text=True, check=True)
    assert done.stdout == "Arrow tables need the package pyarrow: pip install 'pykbroker[arrow]'\n"
