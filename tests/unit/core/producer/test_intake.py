"""The intake: records reach the partition that their key, their caller or the partitioner selects."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from pykbroker.core.producer.accumulator import BatchSettings, RecordAccumulator
from pykbroker.core.producer.batch import record_bytes_max
from pykbroker.core.producer.buffer_pool import BufferPool
from pykbroker.core.producer.columns import Columns
from pykbroker.core.producer.errors import RecordTooLarge, UnknownPartition
from pykbroker.core.producer.intake import Intake, TopicIntake
from pykbroker.core.producer.murmur2 import partition_of_key

BATCH_BYTES, REQUEST_BYTES, MEMORY_BYTES = 1000, 3000, 100_000


def intake_of(memory: int = MEMORY_BYTES, **choices: bool) -> tuple[Intake, TopicIntake]:
    """Return an intake, and its topic of 4 partitions, all with a leader."""
    records = RecordAccumulator(BatchSettings(batch_bytes=BATCH_BYTES), BufferPool(memory))
    intake = Intake(records, REQUEST_BYTES, random.Random(7).randrange, **choices)
    return intake, intake.update("topic", 4, range(4))


def placed(
    intake: Intake, topic: TopicIntake, key: bytes | None = None, partition: int | None = None, size: int = 100
) -> int:
    """Append a record of 100 bytes and return its partition."""
    row = (partition, key, b"x" * size, (), 7)
    appended = intake.try_append(topic, *row) or intake.append(topic, *row, 0)
    assert appended is not None
    return appended[0].partition.partition


def test_a_key_selects_the_partition() -> None:
    intake, topic = intake_of()
    for key in (b"", b"a", b"b", b"c" * 100):
        assert placed(intake, topic, key) == placed(intake, topic, key) == partition_of_key(key, 4)


def test_the_caller_may_select_the_partition() -> None:
    intake, topic = intake_of()
    assert [placed(intake, topic, b"key", index) for index in range(4)] == [0, 1, 2, 3]


@pytest.mark.parametrize("partition", [-1, 4])
def test_a_partition_that_the_topic_lacks_is_refused(partition: int) -> None:
    intake, topic = intake_of()
    with pytest.raises(UnknownPartition, match=f"topic 'topic' has no partition {partition}: it has 0 to 3"):
        placed(intake, topic, partition=partition)
    assert intake.try_append(topic, partition, None, b"x", (), 7) is None, "the topic may get more partitions"


def test_records_without_keys_fill_one_batch_after_the_other() -> None:
    intake, topic = intake_of(memory=1 << 20)
    runs = [placed(intake, topic) for _ in range(400)]
    changes = [index for index in range(1, 400) if runs[index] != runs[index - 1]]
    assert all(later - earlier >= 8 for earlier, later in itertools.pairwise(changes))
    assert set(runs) == {0, 1, 2, 3}


def test_keys_can_be_ignored() -> None:
    intake, topic = intake_of(ignores_keys=True)
    assert len({placed(intake, topic, b"%d" % number) for number in range(8)}) == 1


def test_round_robin_gives_each_partition_its_turn() -> None:
    intake, topic = intake_of(is_round_robin=True)
    assert [placed(intake, topic) for _ in range(8)] == [0, 1, 2, 3] * 2
    intake.update("topic", 4, [1, 3])
    assert Counter(placed(intake, topic) for _ in range(8)) == {1: 4, 3: 4}


def test_more_partitions_are_used_once_they_are_known() -> None:
    intake, topic = intake_of(is_round_robin=True)
    assert intake.update("topic", 5, range(5)) is topic
    assert placed(intake, topic, partition=4) == 4


@pytest.mark.parametrize("excess", [-1, 0, 1])
def test_a_record_is_accepted_up_to_the_size_of_a_request(excess: int) -> None:
    intake, topic = intake_of()
    size = REQUEST_BYTES - record_bytes_max(None, b"", ()) + excess
    if excess <= 0:
        placed(intake, topic, size=size)
    else:
        with pytest.raises(RecordTooLarge, match="a record of 3001 bytes exceeds max_request_size, which is 3000"):
            placed(intake, topic, size=size)


def test_a_record_larger_than_all_memory_is_refused() -> None:
    intake, topic = intake_of(memory=2000)
    with pytest.raises(RecordTooLarge, match="exceeds buffer_memory, which is 2000"):
        placed(intake, topic, size=2000)


def test_columns_change_the_partition_with_each_batch() -> None:
    intake, topic = intake_of()
    columns, end, used = Columns([b"x" * 100] * 80, None, None, 7), 0, []
    while end < 80:
        appended = intake.append_columns(topic, None, columns, end, 0)
        assert appended is not None
        batch, index, end = appended
        assert index == 0
        used.append(batch.partition.partition)
    assert len(set(used)) > 1
    assert len(used) >= 9


def test_rows_are_grouped_by_their_keys() -> None:
    intake, topic = intake_of()
    keys = [b"a", None, b"b", b"a", None]
    rows = intake.rows_by_partition(topic, keys)
    assert rows.pop(None) == [1, 4]
    assert sorted(row for each in rows.values() for row in each) == [0, 2, 3]
    assert 3 in rows[partition_of_key(b"a", 4)]
    assert 0 in rows[partition_of_key(b"a", 4)]


@pytest.mark.parametrize("adaptive", [True, False])
def test_a_partition_with_few_waiting_batches_is_preferred(adaptive: bool) -> None:
    intake, topic = intake_of(memory=1 << 20, is_adaptive=adaptive)
    for _ in range(2000):
        placed(intake, topic, partition=0)
    share = Counter(placed(intake, topic) for _ in range(900))[0]
    assert (share < 60) is adaptive, "a quarter of 900 is 225"
