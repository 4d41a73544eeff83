"""Tests of reads of several partitions: limits, omitted partitions, and bytes that are not in the page cache."""

from __future__ import annotations

import errno
import logging
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.core.fetch.session import SessionPartition
from pykbroker.core.log.epochs import LeaderEpochs
from pykbroker.core.metadata.image import PartitionImage
from pykbroker.core.replication.following import Following
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.partition.consumer_reading import ConsumerReading
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.partition.reading import AT_ONCE_MAX, Reading
from pykbroker.storage.files.errors import CorruptLog, Pending, patiently
from pykbroker.storage.segments.config import LogConfig
from pykbroker.world.disk import NotCached
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages.fetch import FetchPartition

LONG_MS = 50_000


class Directory:
    """A double of a log directory with the attributes that a partition uses."""

    failed: OSError | None = None
    path = "data"

    def set_offline(self, key: TopicPartition) -> None:
        pass

    def fail(self, failure: OSError) -> None:
        self.failed = failure


class Unreadable(Exception):
    """A double of an open segment whose disk fails while a read waits for it."""


class FakeLog:
    """A double of a log up to offset `end`, whose batches have 10 bytes and one offset each.

    If `trouble` is an OSError, every read raises it.
    """

    failed: Exception | None = None
    is_deleted = False

    def __init__(self, end: int, trouble: Exception | None = None) -> None:
        self.log_start_offset, self.log_end_offset, self.trouble = 0, end, trouble
        self.state = self.reader = self.flusher = self
        self.recovery_point, self.config = end, LogConfig()
        self.reads: list[tuple[int, bool]] = []
        self.epochs = LeaderEpochs([(3, 0)])

    def become_leader(self, leader_epoch: int) -> None:
        pass

    def configure(self, config: LogConfig) -> None:
        pass

    def last_stable_offset(self, high_watermark: int) -> int:
        return high_watermark

    def read(self, offset: int, bytes_max: int, upper_offset: int, *, at_least_one: bool) -> bytes:
        if isinstance(self.trouble, OSError):
            raise self.trouble
        if self.trouble is not None:
            raise Pending(self._wait, "load", self)
        self.reads.append((bytes_max, at_least_one))
        count = max(0, min(upper_offset - offset, bytes_max // 10)) or int(at_least_one and upper_offset > offset)
        return bytes(10 * count)

    async def _wait(self) -> None:
        trouble, self.trouble = self.trouble, None
        if isinstance(trouble, Unreadable):
            raise trouble.args[0]
        if isinstance(trouble, CorruptLog):
            raise trouble

    def bytes_between(self, offset: int, upper_offset: int, enough: int) -> int:
        return min(enough, 10 * (upper_offset - offset))


def located(*logs: FakeLog, offset: int = 0, sent: int = -1) -> list[tuple[Partition, SessionPartition]]:
    """Return a partition for each log, led in epoch 3, and its fetch offset.

    `sent` is the high watermark that the client received last.
    """
    found = []
    for index, log in enumerate(logs):
        partition = Partition(TopicPartition("t", index), log, Directory())  # type: ignore[arg-type]
        partition.lead(PartitionImage((-1,), (-1,), -1, 3, 0))
        asked = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1000)
        found.append((partition, SessionPartition(("t", index), NIL, "t", asked, sent, 0 if sent >= 0 else -1)))
    return found


def reading(*args: Any, bytes_min: int = 1, bytes_max: int = 100, **fields: Any) -> Reading:
    return ConsumerReading(located(*args, **fields), bytes_min, bytes_max, committed_only=False)


def read(one: Reading) -> list[Any]:
    one.read()
    return one.results()


async def read_patiently(one: Reading) -> list[Any]:
    await patiently(one.read)
    return one.results()


def sizes(found: list[Any]) -> dict[int, int]:
    return {data.partition_index: len(data.records) for _, data in found}


def codes(found: list[Any]) -> dict[int, int]:
    return {data.partition_index: data.error_code for _, data in found}


def test_partitions_share_max_bytes_and_only_the_first_batch_may_exceed_it():
    logs = FakeLog(0), FakeLog(7), FakeLog(7), FakeLog(7)
    assert sizes(read(reading(*logs))) == {0: 0, 1: 70, 2: 30, 3: 0}
    assert [log.reads for log in logs] == [[(100, True)], [(100, True)], [(30, False)], [(0, False)]]
    assert sizes(read(reading(*logs, bytes_max=5))) == {0: 0, 1: 10, 2: 0, 3: 0}


def test_unchanged_partitions_are_omitted():
    assert sizes(read(reading(FakeLog(5), FakeLog(5), offset=5))) == {0: 0, 1: 0}
    assert read(reading(FakeLog(5), FakeLog(5), offset=5, sent=5)) == []
    assert sizes(read(reading(FakeLog(5), FakeLog(6), offset=5, sent=5))) == {1: 10}
    assert sizes(read(reading(FakeLog(5), offset=5, sent=4))) == {0: 0}


def test_a_wrong_leader_epoch_is_reported_without_records():
    for epoch, code in ((2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        partitions = located(FakeLog(5), offset=5, sent=5)
        partitions[0][1].asked.current_leader_epoch = epoch
        one = ConsumerReading(partitions, 1, 100, committed_only=False)
        assert (codes(read(one)), one.is_enough) == ({0: code}, True)


@pytest.mark.parametrize(("bytes_min", "enough"), [(0, True), (50, True), (51, False), (1 << 30, False)])
def test_min_bytes_counts_the_bytes_of_whole_batches(bytes_min: int, enough: bool) -> None:
    one = reading(FakeLog(5), bytes_min=bytes_min)
    one.read()
    assert one.is_enough is enough


def test_a_read_of_no_partitions_does_not_wait():
    one = reading()
    assert (read(one), one.is_enough) == ([], True)


async def test_a_read_waits_for_bytes_that_are_not_in_the_page_cache():
    one = reading(FakeLog(3), FakeLog(3, EOFError()), FakeLog(3, EOFError()))
    with pytest.raises(NotCached):
        one.read()
    assert sizes(await read_patiently(one)) == {0: 30, 1: 30, 2: 30}


async def test_more_partitions_than_open_segments_are_read_one_after_another():
    """A partition can only be read while its segment is open, and opening another segment closes it."""
    logs, opened = [FakeLog(2) for _ in range(100)], []

    def reader(log: FakeLog, read: Any) -> Any:
        async def load() -> None:
            opened.append(log)

        def when_open(*args: Any, **fields: Any) -> bytes:
            if opened[-1:] != [log]:
                raise Pending(load, "load", log)
            return read(*args, **fields)

        return when_open

    for log in logs:
        log.read = reader(log, log.read)  # type: ignore[method-assign]
    one = reading(*logs, bytes_max=10_000, bytes_min=2000)
    assert sizes(await read_patiently(one)) == dict.fromkeys(range(100), 20)
    assert (opened, one.is_enough) == (logs, True)


@pytest.mark.parametrize("in_steps", [True, False])
async def test_a_repeated_read_of_a_partition_counts_its_records_once(in_steps: bool) -> None:
    log: Any = FakeLog(3)
    unread = [True]

    async def find() -> None:
        unread.clear()

    def aborted(_offset: int, _records: bytes) -> list[Any]:
        if unread:
            raise Pending(find, "find the aborted transactions of", log)
        return []

    log.aborted_transactions = aborted
    one = ConsumerReading(located(log), 31, 100, committed_only=True)
    with pytest.raises(NotCached) as missing:
        _ = [*one.read_in_steps()] if in_steps else read(one)
    await missing.value.fetch()
    assert (sizes(await read_patiently(one)), one.is_enough) == ({0: 30}, False)


async def test_only_the_damaged_log_goes_offline(caplog: pytest.LogCaptureFixture) -> None:
    partitions = located(FakeLog(3, CorruptLog("segment 0: batch 7 does not hold")), FakeLog(3))
    one = ConsumerReading(partitions, 1, 100, committed_only=False)
    with caplog.at_level(logging.ERROR):
        found = await read_patiently(one)
    assert (codes(found), sizes(found)) == ({0: ErrorCode.KAFKA_STORAGE_ERROR, 1: 0}, {0: 0, 1: 30})
    assert (partitions[0][0].log, partitions[0][0].is_leader) == (None, False)
    assert "t-0: going offline: segment 0: batch 7 does not hold" in caplog.text


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_disk_that_cannot_be_read_takes_its_directory_offline(at_once: bool) -> None:
    broken = OSError(errno.EIO, "Input/output error")
    log = FakeLog(3, broken if at_once else Unreadable(broken))
    partitions = located(log, FakeLog(3))
    found = await read_patiently(ConsumerReading(partitions, 1, 100, committed_only=False))
    assert codes(found) == {0: ErrorCode.KAFKA_STORAGE_ERROR, 1: 0}
    assert partitions[0][0].directory.failed is broken


async def test_a_failed_read_is_not_repeated_for_the_same_response():
    """A log whose reads always fail would otherwise be read again and again."""
    log, asked = FakeLog(3), []

    async def refuse() -> None:
        asked.append(log)
        raise OSError(errno.EMFILE, "Too many open files")

    def read(*_: object, **__: object) -> bytes:
        raise Pending(refuse, "load", log)

    log.read = read  # type: ignore[method-assign]
    found = await read_patiently(reading(log, FakeLog(3)))
    assert (codes(found), sizes(found)) == ({0: ErrorCode.KAFKA_STORAGE_ERROR, 1: 0}, {0: 0, 1: 30})
    assert asked == [log]


async def test_a_consumer_learns_the_end_of_the_leadership_before_the_failure_of_the_disk():
    log: Any = FakeLog(3)
    partitions = located(log)
    partition: Any = partitions[0][0]
    partition.directory.fail = lambda failure: None  # too many open files take no directory offline

    async def resign() -> None:
        partition.resign(Following(4))
        raise OSError(errno.EMFILE, "Too many open files")

    def read(*_: object, **__: object) -> bytes:
        raise Pending(resign, "load", log)

    log.read = read
    found = await read_patiently(ConsumerReading(partitions, 1, 100, committed_only=False))
    assert codes(found) == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}


async def test_a_waiting_fetch_reads_only_once_min_bytes_are_available():
    log = FakeLog(0)
    partitions = located(log)
    one, partition = ConsumerReading(partitions, 25, 100, committed_only=False), partitions[0][0]
    one.read()
    _, waiting = one.begin_wait(LONG_MS)
    log.reads.clear()

    found: list[Any] = []

    async def wait() -> None:
        await waiting
        found.extend(one.results())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        for end in (1, 2, 3):
            await trio.testing.wait_all_tasks_blocked()
            assert (found, log.reads) == ([], [])
            log.log_end_offset = end
            partition.raise_high_watermark(end)
    assert sizes(found) == {0: 30}
    assert (len(log.reads), partition.watches) == (1, set())


async def test_a_waiting_fetch_ends_when_the_leadership_ends():
    partitions = located(FakeLog(0), FakeLog(0))
    one = ConsumerReading(partitions, 1, 100, committed_only=False)
    _, waiting = one.begin_wait(LONG_MS)
    partitions[1][0].resign(Following(4))
    await waiting
    assert codes(one.results()) == {0: 0, 1: ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_a_client_whose_log_diverges_gets_the_diverging_epoch():
    log: Any = FakeLog(9)
    log.epochs = LeaderEpochs([(1, 0), (3, 4)])
    for epoch, offset, diverging in ((3, 9, (-1, -1)), (2, 5, (1, 4)), (1, 5, (1, 4)), (1, 4, (-1, -1))):
        partitions = located(log, offset=offset)
        partitions[0][1].asked.last_fetched_epoch = epoch
        one = ConsumerReading(partitions, 1 << 30, 100, committed_only=False)
        ((_, data),) = read(one)
        assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == diverging
        assert one.is_enough is (diverging != (-1, -1))
    partitions = located(log, offset=5)
    partitions[0][1].asked.last_fetched_epoch = 5
    assert codes(read(ConsumerReading(partitions, 1, 100, committed_only=False))) == {0: ErrorCode.OFFSET_OUT_OF_RANGE}


def test_read_committed_lists_the_aborted_transactions_among_the_records():
    log: Any = FakeLog(3)
    log.aborted_transactions = lambda offset, records: [SimpleNamespace(producer_id=7, first_offset=1, last_offset=2)]
    ((_, data),) = read(ConsumerReading(located(log), 1, 100, committed_only=True))
    assert [(one.producer_id, one.first_offset) for one in data.aborted_transactions] == [(7, 1)]
    ((_, data),) = read(ConsumerReading(located(log, offset=3), 1, 100, committed_only=True))
    assert data.aborted_transactions == []


async def test_records_appended_after_a_partition_was_read_complete_the_fetch(
    autojump_clock: trio.testing.MockClock,
) -> None:
    logs = [FakeLog(0) for _ in range(AT_ONCE_MAX + 1)]
    where = located(*logs)
    reading = ConsumerReading(where, 1, 1000, committed_only=False)
    steps = reading.read_in_steps()
    next(steps)
    logs[0].log_end_offset = where[0][0].high_watermark = 1
    assert len([*steps]) == 1
    assert not reading.is_enough
    began_s = trio.current_time()
    _, waiting = reading.begin_wait(LONG_MS)
    await waiting
    assert trio.current_time() == began_s
    assert sizes(reading.results())[0] == 10
