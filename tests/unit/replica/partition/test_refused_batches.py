"""Tests of batches that were refused before the append: whatever follows them in a pipeline gets the same error."""

from __future__ import annotations

import errno
import gc
import weakref
from collections.abc import Callable

import pytest
import trio
import trio.testing

from pykbroker.core.errors import ApiError
from pykbroker.replica.partition.partition import Partition
from pykbroker.sim.disk import SimFile
from tests.unit.replica.brokers import LAG_MS_MAX, Cluster, pause
from tests.unit.replica.host import NOW_MS
from tests.unit.replica.test_replication import until
from wire.error_codes import ErrorCode
from wire.records.builder import BatchBuilder

Clock = trio.testing.MockClock
DAY_MS = 86_400_000


def numbered(sequence: int, *, epoch: int = 0) -> bytes:
    """Return a batch of an idempotent producer."""
    builder = BatchBuilder(producer_id=1, producer_epoch=epoch, base_sequence=sequence)
    builder.append(None, b"value", timestamp=NOW_MS)
    return builder.build()


def append(partition: Partition, sequence: int, *, epoch: int = 0) -> ErrorCode:
    """Append a batch that needs all replicas, and return the error for its producer."""
    try:
        assert partition.append(numbered(sequence, epoch=epoch), NOW_MS, None, True) is not None
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def committed(partition: Partition, offset: int) -> Callable[[], bool]:
    """Return a condition: the high watermark has reached an offset."""
    return lambda: partition.high_watermark == offset


@pytest.mark.parametrize("wait_s", [0, 5])
@pytest.mark.parametrize("written", [0, 1])
async def test_a_batch_behind_one_that_came_before_the_leadership_is_repeated(
    autojump_clock: Clock, wait_s: float, written: int
) -> None:
    cluster = Cluster()
    async with cluster.up():
        old, new = cluster.brokers[1].partition, cluster.brokers[2].partition
        for sequence in range(written):
            assert append(old, sequence) is ErrorCode.NONE
        await until(committed(new, written))
        assert append(new, written) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        cluster.commit(leader=2)
        await trio.testing.wait_all_tasks_blocked()
        await pause(wait_s)
        assert append(new, written + 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert [append(new, sequence) for sequence in (written, written + 1)] == [ErrorCode.NONE] * 2
        assert append(new, written + 3) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_a_batch_behind_one_that_came_before_the_isr_grew_is_repeated(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up(1):
        leader = cluster.brokers[1].partition
        await until(lambda: cluster.placed().isr == (1,))
        assert append(leader, 0) is ErrorCode.NOT_ENOUGH_REPLICAS
        await cluster.start(2)
        await until(lambda: cluster.placed().isr == (1, 2))
        assert append(leader, 1) is ErrorCode.NOT_ENOUGH_REPLICAS
        assert [append(leader, sequence) for sequence in (0, 1)] == [ErrorCode.NONE] * 2


@pytest.mark.parametrize("compression_type", ["producer", "gzip"])
@pytest.mark.parametrize("written", [0, 1])
async def test_a_batch_behind_one_that_could_not_be_written_is_repeated(
    autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch, compression_type: str, written: int
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    cluster = Cluster(configs={"compression.type": compression_type})
    async with cluster.up():
        leader = cluster.brokers[1].partition
        for sequence in range(written):
            assert append(leader, sequence) is ErrorCode.NONE
        with monkeypatch.context() as patch:
            patch.setattr(SimFile, "append", full)
            assert append(leader, written) is ErrorCode.KAFKA_STORAGE_ERROR
        assert append(leader, written + 1) is ErrorCode.KAFKA_STORAGE_ERROR
        assert [append(leader, sequence) for sequence in (written, written + 1)] == [ErrorCode.NONE] * 2


async def test_a_batch_behind_one_that_was_refused_off_the_event_loop_is_repeated(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up():
        partition = cluster.brokers[2].partition
        for data in (b"no batch", numbered(0)):
            with pytest.raises(ApiError) as refused:
                await partition.append_off_loop(data, NOW_MS, None, True)
            assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        cluster.commit(leader=2)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ApiError) as refused:
            await partition.append_off_loop(numbered(1), NOW_MS, None, True)
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        for sequence in (0, 1):
            appended = await partition.append_off_loop(numbered(sequence), NOW_MS, None, True)
            assert appended.base_offset == sequence


async def test_a_batch_behind_one_that_was_truncated_is_repeated(autojump_clock: Clock) -> None:
    """Broker 1 leads, loses the leadership and its last two batches to broker 2, and leads again."""
    cluster = Cluster()
    async with cluster.up():
        first, second = cluster.brokers[1].partition, cluster.brokers[2].partition
        assert append(first, 0) is ErrorCode.NONE
        await until(committed(second, 1))
        cluster.cut |= {(2, 1), (3, 1)}
        await pause(1)
        assert [append(first, sequence) for sequence in (1, 2)] == [ErrorCode.NONE] * 2
        assert first.log is not None
        cluster.commit(leader=2)
        cluster.cut.clear()
        await until(lambda: first.log is not None and first.log.log_end_offset == 1)
        cluster.commit(leader=1)
        await trio.testing.wait_all_tasks_blocked()
        assert append(first, 3) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert [append(first, sequence) for sequence in (1, 2, 3)] == [ErrorCode.NONE] * 3


async def test_committed_batches_that_an_unclean_leader_lacks_are_not_expected(autojump_clock: Clock) -> None:
    """Their producer got an acknowledgement, and repeats nothing."""
    cluster = Cluster()
    async with cluster.up():
        first, third = cluster.brokers[1].partition, cluster.brokers[3].partition
        assert append(first, 0) is ErrorCode.NONE
        await until(committed(third, 1))
        await cluster.kill(3)
        await pause(2 * LAG_MS_MAX / 1000)
        assert append(first, 1) is ErrorCode.NONE
        await until(committed(first, 2))
        cluster.cut |= {(3, 1), (3, 2)}
        await cluster.start(3)
        cluster.commit(leader=3, isr=(3,))
        cluster.cut.clear()
        await until(lambda: first.log is not None and first.log.log_end_offset == 1)
        cluster.commit(leader=1, isr=(1, 2, 3))
        await trio.testing.wait_all_tasks_blocked()
        assert append(first, 3) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_a_replica_that_is_taken_away_remembers_nothing(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up():
        follower = cluster.brokers[2]
        partition = follower.partition
        assert append(partition, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert follower.own.refused_sequences_limit.count == 1
        cluster.commit(replicas=(1, 3), isr=(1, 3))
        await until(lambda: not follower.has_partition)
        assert follower.own.refused_sequences_limit.count == 0


async def test_the_records_of_a_refused_batch_are_freed_at_once(
    autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Data(bytearray):
        """Bytes that a weak reference can refer to."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def kept(partition: Partition, sequence: int) -> bool:
        data = Data(numbered(sequence))
        known = weakref.ref(data)
        with pytest.raises(ApiError):
            partition.append(data, NOW_MS, None, True)
        del data
        return known() is not None

    cluster = Cluster()
    async with cluster.up():
        leader, follower = cluster.brokers[1].partition, cluster.brokers[2].partition
        gc.disable()
        try:
            with monkeypatch.context() as patch:
                patch.setattr(SimFile, "append", full)
                kept(leader, 0)  # the captured log line keeps the first error, and is written once
                refused = [kept(leader, 0), kept(follower, 0)]
            assert [*refused, kept(leader, 1)] == [False] * 3
        finally:
            gc.enable()


async def test_refused_batches_expire_with_their_producer(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up():
        old, new = cluster.brokers[1].partition, cluster.brokers[2].partition
        assert append(old, 0) is ErrorCode.NONE
        await until(committed(new, 1))
        assert append(new, 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert new.log is not None
        new.log.producers.expire(NOW_MS + DAY_MS, DAY_MS)
        cluster.commit(leader=2)
        await trio.testing.wait_all_tasks_blocked()
        assert append(new, 2) is ErrorCode.NONE
