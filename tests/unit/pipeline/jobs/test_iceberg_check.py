"""The checks of the topics around a batch of an Iceberg table."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.errors import StateConflict
from pykbroker.pipeline.jobs import iceberg
from pykbroker.pipeline.jobs.commits import ArchivedRange
from pykbroker.pipeline.jobs.iceberg import IcebergTable
from pykbroker.pipeline.jobs.table_batches import SUMS, TableBatch, TableHistory
from pykbroker.pipeline.jobs.table_sums import TableSums, noted_sums

BYTES_MAX = 60


def test_a_topic_that_was_created_again_during_a_batch_is_found_before_and_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, noted = MagicMock(), list[str]()
    monkeypatch.setattr(iceberg, "loaded", lambda *_: table)
    monkeypatch.setattr(iceberg, "history", lambda _: TableHistory(TableBatch(4, 7, {}), is_whole=True))
    monkeypatch.setattr(iceberg, "noted_sums", lambda _: TableSums(3))
    monkeypatch.setattr(iceberg, "sums_with", lambda *_: TableSums(4))
    monkeypatch.setattr(iceberg, "note_batch", lambda _, batch, ends, sums: noted.append(sums))
    error = StateConflict("topic t was deleted and created again")
    records, append = MagicMock(), "sortWithinPartitions().writeTo().option().option().option().option().append"
    archive = IcebergTable(MagicMock(), "c.n.t", 0, print)
    with pytest.raises(StateConflict, match="^topic t was deleted and created again$"):
        archive.write(records, 4, {}, MagicMock(side_effect=error))
    assert [call for call, *_ in records.mock_calls].count(append) == 0
    with pytest.raises(StateConflict, match="created again. The last snapshot of `c`.`n`.`t`, with batch 4, may have"):
        archive.write(records, 4, {}, MagicMock(side_effect=[[], error]))
    assert [call for call, *_ in records.mock_calls].count(append) == 1
    assert archive.write(records, 4, {}, lambda _: []) == 7
    assert noted == [TableSums(4).json()]  # a batch that is refused has no sums


def test_sums_of_batches_add_up_and_stay_small() -> None:
    one = TableSums().plus(0, [ArchivedRange(1, 0, 4, 5, -7, topic="t"), ArchivedRange(0, 3, 3, 1, 2, topic="t")])
    two = one.plus(1, [ArchivedRange(1, 5, 9, 4, 9, topic="t")])
    assert two.ranges() == [ArchivedRange(0, 3, 3, 1, 2, topic="t"), ArchivedRange(1, 0, 9, 9, -7 ^ 9, topic="t")]
    assert two.json() == '{"batch":1,"partitions":{"t":{"0":[3,3,1,2],"1":[0,9,9,-16]}}}'
    table = MagicMock()
    table.properties.return_value = {SUMS: two.json()}
    assert noted_sums(table) == two
    wide = TableSums().plus(
        0, [ArchivedRange(each, 0, 10**9, 10**9, -(1 << 63), topic="topic") for each in range(10_000)]
    )
    assert len(wide.json()) < 10_000 * BYTES_MAX


def test_batches_without_checksums_are_summed_apart() -> None:
    before = TableSums(4, 4, {"t": {0: (0, 9, 10, None)}})  # as the first sums were written
    now = before.plus(5, [ArchivedRange(0, 10, 19, 10, 5, topic="t"), ArchivedRange(1, 0, 0, 1, 6, topic="t")])
    now = now.plus(6, [ArchivedRange(0, 20, 29, 10, 9, topic="t")])
    assert now == TableSums(6, 4, {"t": {0: (10, 29, 20, 5 ^ 9), 1: (0, 0, 1, 6)}}, {"t": {0: (0, 9, 10, None)}})


def test_a_table_of_before_has_no_sums_and_a_damaged_property_is_named() -> None:
    table = MagicMock()
    table.properties.return_value = {}
    assert noted_sums(table) is None
    table.properties.return_value = {SUMS: "{"}
    with pytest.raises(StateConflict, match="the property pykbroker.sums of the table .* is damaged"):
        noted_sums(table)


@pytest.mark.parametrize("is_whole", [True, False])
def test_the_ends_of_a_table_of_before_are_those_of_its_records(
    monkeypatch: pytest.MonkeyPatch, is_whole: bool
) -> None:
    """The last batch lacks a partition that old metadata has hidden, and earlier snapshots are expired."""
    monkeypatch.setattr(iceberg, "loaded", lambda *_: MagicMock())
    monkeypatch.setattr(iceberg, "history", lambda _: TableHistory(TableBatch(4, 7, {"t": {"0": 12}}), is_whole))
    monkeypatch.setattr(iceberg, "noted_sums", lambda _: None)
    found = TableSums(4, 4, before={"t": {0: (0, 9, 10, None), 1: (0, 4, 5, None)}})
    monkeypatch.setattr(iceberg, "first_sums", lambda *_: found)
    archive = IcebergTable(MagicMock(), "c.n.t", 0, print)
    assert archive.archived() == {TopicPartition("t", 0): 12, TopicPartition("t", 1): 5}
