"""The checks of the topics around a batch of an Iceberg table."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from pykbroker.pipeline.errors import StateConflict
from pykbroker.pipeline.jobs import iceberg
from pykbroker.pipeline.jobs.iceberg import IcebergTable
from pykbroker.pipeline.jobs.table_batches import TableBatch


def test_a_topic_that_was_created_again_during_a_batch_is_found_before_and_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(iceberg, "last_batch", lambda *_: TableBatch(4, 7, {}))
    error = StateConflict("topic t was deleted and created again")
    records, append = MagicMock(), "sortWithinPartitions().writeTo().option().option().option().option().append"
    table = IcebergTable(MagicMock(), "c.n.t", 0)
    with pytest.raises(StateConflict, match="^topic t was deleted and created again$"):
        table.write(records, 4, {}, MagicMock(side_effect=error))
    assert [call for call, *_ in records.mock_calls].count(append) == 0
    with pytest.raises(StateConflict, match="created again. The last snapshot of `c`.`n`.`t`, with batch 4, may have"):
        table.write(records, 4, {}, MagicMock(side_effect=[[], error]))
    assert [call for call, *_ in records.mock_calls].count(append) == 1
    assert table.write(records, 4, {}, lambda _: []) == 7
