"""Columns give batches the same records as single appends, and name the row that is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykbroker.core.producer.batch import SMALL_BYTES_MAX, ProducerBatch
from pykbroker.core.producer.columns import Columns
from pykbroker.core.topic_partition import TopicPartition
from wire.records.batch import Batch
from wire.records.compression import Codec
from wire.records.record import Headers, records

PARTITION = TopicPartition("topic", 0)

values = st.lists(st.none() | st.binary(max_size=60) | st.just(b"x" * SMALL_BYTES_MAX), min_size=1, max_size=60)


def appended(columns: Columns, bytes_max: int) -> list[ProducerBatch]:
    """Return the batches of at most `bytes_max` bytes that all rows need."""
    batches, row = [], 0
    while row < len(columns):
        reserved = max(bytes_max, columns.record_bytes_max(row))
        batches.append(ProducerBatch(PARTITION, bytes_max, reserved, 0))
        end = columns.append_to(batches[-1], row)
        assert end > row
        assert batches[-1].size <= reserved
        row = end
    return batches


@settings(max_examples=80, deadline=None)
@given(st.data(), values, st.integers(200, 20_000), st.integers(0, 2**50))
def test_all_rows_come_out_in_order_within_the_size(
    data: st.DataObject, column: list[bytes | None], size: int, time: int
) -> None:
    rows = len(column)
    keys = data.draw(st.none() | st.lists(st.none() | st.binary(max_size=9), min_size=rows, max_size=rows))
    headers = data.draw(st.none() | st.lists(st.sampled_from(((), (("h", b"1"),))), min_size=rows, max_size=rows))
    times = data.draw(st.just(time) | st.lists(st.integers(0, 2**40), min_size=rows, max_size=rows))
    found = []
    for batch in appended(Columns(column, keys, headers, times), size):
        limit = max(size, batch.reserved)
        encoded = batch.encode(Codec.NONE)
        assert len(encoded) <= limit
        found += list(records(Batch.read(encoded), 1 << 30))
    assert [each.value for each in found] == column
    assert [each.key for each in found] == (keys or [None] * rows)
    assert [each.headers for each in found] == (headers or [()] * rows)
    assert [each.timestamp for each in found] == (times if isinstance(times, list) else [times] * rows)


@pytest.mark.parametrize("column", [[b"x" * 10] * 9, [b"x" * size for size in range(9)]])
def test_a_batch_takes_the_last_row_that_fits(column: list[bytes]) -> None:
    columns = Columns(column, None, None, 7)
    all_rows = ProducerBatch(PARTITION, 1 << 20, 1 << 20, 0)
    assert columns.append_to(all_rows, 0) == 9
    exact = all_rows.size
    for room, end in ((-1, 8), (0, 9), (1, 9)):
        assert columns.append_to(ProducerBatch(PARTITION, exact + room, 1 << 20, 0), 0) == end
        assert columns.append_to(ProducerBatch(PARTITION, 1 << 20, exact + room, 0), 0) == end


def test_a_closed_batch_takes_no_row() -> None:
    batch = ProducerBatch(PARTITION, 1000, 1000, 0)
    batch.close()
    assert Columns([b"a"], None, None, 7).append_to(batch, 0) == 0


def test_some_rows_can_be_taken() -> None:
    columns = Columns([b"a", b"b", b"c"], [b"1", None, b"3"], [(), (), (("h", None),)], [4, 5, 6]).take([2, 0])
    batch = ProducerBatch(PARTITION, 1000, 1000, 0)
    assert columns.append_to(batch, 0) == 2
    found = records(Batch.read(batch.encode(Codec.NONE)), 1000)
    assert [(each.key, each.value, each.headers, each.timestamp) for each in found] == [
        (b"3", b"c", (("h", None),), 6),
        (b"1", b"a", (), 4),
    ]


def test_later_changes_of_a_bytearray_are_not_sent() -> None:
    value = bytearray(b"before")
    columns = Columns([value, memoryview(b"view")], None, None, 7)
    value[:] = b"after!"
    assert columns.values == [b"before", b"view"]


@pytest.mark.parametrize(
    ("keys", "headers", "timestamps", "name"),
    [([b""], None, 7, "keys"), (None, [()] * 3, 7, "headers"), (None, None, [1], "timestamps")],
)
def test_columns_of_unlike_length_are_refused(
    keys: list[bytes], headers: list[Headers], timestamps: list[int] | int, name: str
) -> None:
    with pytest.raises(ValueError, match=rf"the column '{name}' has [13] rows, but 'values' has 2"):
        Columns([b"a", b"b"], keys, headers, timestamps)


@pytest.mark.parametrize(("column", "keys", "text"), [([b"", 5], None, "row 1.*'values'.*int"), ([b""], ["k"], "keys")])
def test_the_row_with_a_wrong_type_is_named(column: list[Any], keys: list[Any] | None, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        Columns(column, keys, None, 7)
