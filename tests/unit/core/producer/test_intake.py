"""The intake: records reach the partition that their key, their caller or the partitioner selects."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from pykbroker.core.producer.accumulator import BatchSettings, Leader, RecordAccumulator
from pykbroker.core.producer.batch import BatchOutcome, ProducerBatch, record_bytes_max
from pykbroker.core.producer.buffer_pool import BufferPool, MemoryTicket
from pykbroker.core.producer.columns import Columns
from pykbroker.core.producer.errors import RecordTooLarge, UnknownPartition
from pykbroker.core.producer.intake import QUEUE_EXCESS_MAX, Intake, TopicIntake
from pykbroker.core.producer.murmur2 import partition_of_key
from pykbroker.core.producer.record import SerializedRecord

BATCH_BYTES, REQUEST_BYTES, MEMORY_BYTES, LARGE_BYTES = 1000, 3000, 100_000, 8000


def intake_of(memory: int = MEMORY_BYTES, large: int = 0, **choices: bool) -> tuple[Intake, TopicIntake]:
    """Return an intake, and its topic of 4 partitions, all with a leader."""
    settings = BatchSettings(batch_bytes=BATCH_BYTES, large_batch_bytes=large)
    records = RecordAccumulator(settings, BufferPool(memory))
    intake = Intake(records, REQUEST_BYTES, random.Random(7).randrange, **choices)
    return intake, intake.update("topic", 4, range(4))


def placed(
    intake: Intake, topic: TopicIntake, key: bytes | None = None, partition: int | None = None, size: int = 100
) -> int:
    """Append a record of 100 bytes and return its partition."""
    record = SerializedRecord("topic", b"x" * size, key, partition, timestamp=7)
    appended = intake.try_append(topic, record) or intake.append(topic, record, 0)
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
    record = SerializedRecord("topic", b"x", partition=partition)
    assert intake.try_append(topic, record) is None, "the topic may get more partitions"


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


def fill(
    intake: Intake, topic: TopicIntake, columns: Columns, partition: int | None = None
) -> Iterator[tuple[ProducerBatch, int]]:
    """Append all rows. Yield the batch of each run of rows, and the number of rows in the run."""
    end = 0
    while end < len(columns):
        appended = intake.append_columns(topic, partition, columns, end, 0)
        assert appended is not None
        yield appended[0], appended[2] - end
        end = appended[2]


def filled(
    intake: Intake, topic: TopicIntake, columns: Columns, partition: int | None = None
) -> list[tuple[ProducerBatch, int]]:
    """Return what `fill` yields."""
    return list(fill(intake, topic, columns, partition))


def by_partition(runs: list[tuple[ProducerBatch, int]]) -> Counter[int]:
    """Return the number of rows in each partition."""
    rows: Counter[int] = Counter()
    for batch, count in runs:
        rows[batch.partition.partition] += count
    return rows


@pytest.mark.parametrize(("excess", "sizes"), [(-1, [7999]), (0, [8000]), (1, [7901, 161])])
def test_the_rows_of_a_call_share_a_batch_up_to_the_limit(excess: int, sizes: list[int]) -> None:
    intake, topic = intake_of(large=LARGE_BYTES)
    rows = [b"x" * 100] * 70 + [b"x" * (LARGE_BYTES - 61 - 70 * 112 - 12 + excess)]
    runs = filled(intake, topic, Columns(rows, None, None, 7), partition=2)
    assert [batch.size for batch, _ in runs] == sizes
    assert [batch.reserved for batch, _ in runs] == [min(LARGE_BYTES, LARGE_BYTES + excess), BATCH_BYTES][: len(sizes)]
    assert runs[0][0].is_full


@pytest.mark.parametrize(("rows", "reserved", "is_full"), [(8, 1000, False), (9, 61 + 9 * 112, True)])
def test_a_call_that_fills_no_batch_leaves_it_open(rows: int, reserved: int, is_full: bool) -> None:
    intake, topic = intake_of(large=LARGE_BYTES)
    ((batch, _),) = filled(intake, topic, Columns([b"x" * 100] * rows, None, None, 7), partition=2)
    assert (batch.reserved, batch.is_full) == (reserved, is_full)


def test_the_rows_of_a_call_fill_an_open_batch_before_a_large_one() -> None:
    intake, topic = intake_of(large=LARGE_BYTES)
    placed(intake, topic, partition=2)
    runs = filled(intake, topic, Columns([b"x" * 100] * 50, None, None, 7), partition=2)
    assert [count for _, count in runs] == [7, 43]
    assert [batch.reserved for batch, _ in runs] == [1000, 61 + 43 * 112]


@pytest.mark.parametrize("choices", [{}, {"is_adaptive": False}, {"is_round_robin": True}])
@pytest.mark.parametrize("rows", [40, 200, 700])
def test_a_call_reaches_all_partitions_alike(rows: int, choices: dict[str, bool]) -> None:
    intake, topic = intake_of(memory=1 << 20, large=LARGE_BYTES, **choices)
    intake.update("topic", 12, range(1, 12))
    runs = filled(intake, topic, Columns([b"x" * 100] * rows, None, None, 7))
    counts = by_partition(runs)
    assert max(counts.values()) - min(counts.values()) <= (8 if rows == 40 else 1)
    assert set(counts) <= set(range(1, 12))
    assert len(counts) == min(11, len(runs))
    assert max(batch.size for batch, _ in runs) <= max(BATCH_BYTES, min(LARGE_BYTES, 61 + (rows // 11 + 1) * 112))


def test_calls_at_the_same_time_reach_all_partitions_alike() -> None:
    intake, topic = intake_of(memory=1 << 20, large=LARGE_BYTES)
    calls = [fill(intake, topic, Columns([b"x" * 100] * 400, None, None, 7)) for _ in range(2)]
    runs = [[run for run in each if run is not None] for each in zip(*itertools.zip_longest(*calls), strict=True)]
    for counts in map(by_partition, runs):
        assert sum(counts.values()) == 400
        assert max(counts.values()) - min(counts.values()) <= 1
        assert len(counts) == 4


@pytest.mark.parametrize(("excess", "is_visited"), [(-1, True), (0, True), (1, False)])
def test_a_call_passes_over_a_partition_with_a_long_queue(excess: int, is_visited: bool) -> None:
    intake, topic = intake_of(large=LARGE_BYTES)
    columns = Columns([b"x" * 100] * 280, None, None, 7)
    topic.appended_to(filled(intake, topic, Columns([b"x" * 900], None, None, 7), partition=3)[0][0])
    for _ in range(1 + QUEUE_EXCESS_MAX + excess):
        filled(intake, topic, Columns([b"x" * 900], None, None, 7), partition=0)
    columns.visited.add(3)
    visits = [batch.partition.partition for batch, _ in filled(intake, topic, columns)[:3]]
    assert {1, 2} <= set(visits), "one batch waits for each partition but 0 before the third visit"
    assert (0 in visits) is is_visited


def test_without_a_leader_the_rows_of_a_call_reach_all_partitions() -> None:
    intake, topic = intake_of(large=LARGE_BYTES)
    intake.update("topic", 4, ())
    assert len(by_partition(filled(intake, topic, Columns([b"x" * 100] * 80, None, None, 7)))) == 4


def test_a_topic_that_refuses_a_large_batch_gets_no_more_of_them() -> None:
    intake, topic = intake_of(large=LARGE_BYTES)
    other = intake.update("other", 1, range(1))
    rows = Columns([b"x" * 100] * 50, None, None, 7)
    accumulator = intake._accumulator
    ((batch, _),) = filled(intake, topic, rows, partition=0)
    assert accumulator.drain([batch.partition], lambda _: Leader(1, 1), 1) == [batch]
    accumulator.encode(batch)
    assert {part.size for part in accumulator.split(batch)} <= {61 + 8 * 112, 61 + 2 * 112}
    assert max(batch.size for batch, _ in filled(intake, topic, rows, partition=1)) == 61 + 8 * 112
    assert [count for _, count in filled(intake, other, rows, partition=0)] == [50]


def test_the_rows_of_a_call_wait_for_the_memory_of_their_batch() -> None:
    intake, topic = intake_of(memory=8500, large=LARGE_BYTES)
    pool = intake._accumulator.pool
    placed(intake, topic, partition=1)
    columns = Columns([b"x" * 100] * 70, None, None, 7)
    assert intake.append_columns(topic, 2, columns, 0, 0) is None
    wanted = intake.batch_bytes(topic, 2, columns, 0)
    assert wanted == 61 + 70 * 112
    ticket = pool.stand_in_line(MemoryTicket(intake._accumulator.memory_for(wanted), int))
    assert not ticket.is_served
    (first,) = intake._accumulator.drain([topic.partitions[1]], lambda _: Leader(1, 1), 1)
    intake._accumulator.incomplete.settle(first, BatchOutcome())
    assert ticket.is_served
    appended = intake.append_columns(topic, 2, columns, 0, 0, ticket)
    assert appended is not None
    assert appended[1:] == (0, 70)
    assert appended[0].reserved == wanted == 8500 - pool.available_bytes


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
