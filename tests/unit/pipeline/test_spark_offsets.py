"""The offsets that Spark notes in its checkpoint before a batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.errors import PipelineError, StateConflict
from pykbroker.pipeline.spark_offsets import by_partition, has_offsets, last_done, last_planned, planned_ends, reached
from pykbroker.pipeline.storage import LocalStorage

TEXT = 'v1\n{"batchWatermarkMs":0,"conf":{}}\n{"orders":{"0":2000,"1":7},"users":{"0":0}}'


def test_the_ends_of_a_batch_are_read(tmp_path: Path) -> None:
    checkpoint = LocalStorage(tmp_path)
    assert (has_offsets(checkpoint), last_planned(checkpoint)) == (False, None)
    checkpoint.write("spark/offsets/3", TEXT.encode())
    assert has_offsets(checkpoint)
    ends = planned_ends(checkpoint, 3)
    assert last_planned(checkpoint) == ends
    assert by_partition(ends) == {
        TopicPartition("orders", 0): 2000,
        TopicPartition("orders", 1): 7,
        TopicPartition("users", 0): 0,
    }
    with pytest.raises(PipelineError, match="spark/offsets/4: No such file"):
        planned_ends(checkpoint, 4)


def test_the_last_batch_that_is_done_is_the_one_with_the_highest_number(tmp_path: Path) -> None:
    checkpoint = LocalStorage(tmp_path)
    assert (last_done(checkpoint), reached(checkpoint)) == (None, {})
    checkpoint.write("spark/offsets/10", b'v1\n{}\n{"orders":{"0":7}}')
    for name in ("9", "10", ".10.crc", ".11.3f2a.tmp"):
        checkpoint.write(f"spark/commits/{name}", b"v1\n{}")
    assert last_done(checkpoint) == 10
    assert reached(checkpoint) == {TopicPartition("orders", 0): 7}


def test_the_start_that_the_format_pykbroker_notes_is_no_topic(tmp_path: Path) -> None:
    checkpoint = LocalStorage(tmp_path)
    checkpoint.write("spark/offsets/0", b'v1\n{}\n{"@start": {"orders": {"0": 5}}, "orders": {"0": 9}}')
    assert planned_ends(checkpoint, 0) == {"orders": {"0": 9}}


@pytest.mark.parametrize("text", ["", "v1\n{}", "v1\n{}\n-", 'v1\n{}\n{"orders":[1]}', f"{TEXT}\n{{}}"])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    checkpoint = LocalStorage(tmp_path)
    checkpoint.write("spark/offsets/0", text.encode())
    with pytest.raises(StateConflict, match=f"{tmp_path}/spark/offsets/0 is damaged"):
        planned_ends(checkpoint, 0)
