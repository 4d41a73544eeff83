"""Tests of a wall clock that jumps by years: records get its time, but timeouts do not depend on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from pykbroker.core.config.table import ONE_BROKER
from pykbroker.world import system
from tests.unit.apis.conftest import fetch_request, serving
from tests.unit.apis.transactional import TransactionalClient
from wire.error_codes import ErrorCode
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from wire.messages.find_coordinator import FindCoordinatorRequest
from wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from wire.records.builder import BatchBuilder

YEAR_MS = 365 * 86_400_000
JUMPS_MS = (0, 20 * YEAR_MS, -20 * YEAR_MS, 5 * YEAR_MS, -1, 0)
CONFIGS = {name.replace(".", "_"): value for name, value in ONE_BROKER.items()}


class Clock:
    """A wall clock that is `ahead_ms` ahead of the correct time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead_ms, right = 0, system.wall_ms
        monkeypatch.setattr(system, "wall_ms", lambda: right() + self.ahead_ms)

    def jumps(self) -> Iterator[int]:
        """Jump to each time difference, and yield it."""
        for self.ahead_ms in JUMPS_MS:
            yield self.ahead_ms


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def stamped_now() -> bytes:
    """Return a batch of one record with the timestamp of a client whose clock agrees with the broker's."""
    builder = BatchBuilder()
    builder.append(b"k", b"v", timestamp=system.wall_ms())
    return builder.build()


async def test_records_are_appended_and_read_after_the_clock_jumps(tmp_path: Path, clock: Clock) -> None:
    """After a restart with the correct time, all records are still there."""
    async with serving(tmp_path, topics=(("a", 1),)) as local_broker:
        client = await local_broker.connect()
        await client.create("stamped", message_timestamp_type="LogAppendTime")
        for offset, ahead_ms in enumerate(clock.jumps()):
            assert (await client.produce("a", stamped_now())).base_offset == offset, ahead_ms
            answer = await client.produce("stamped", stamped_now())
            assert (answer.error_code, answer.base_offset) == (0, offset), ahead_ms
            assert abs(answer.log_append_time_ms - system.wall_ms()) < YEAR_MS
            assert (await client.fetch("a", offset)).high_watermark == offset + 1
    for _ in clock.jumps():
        async with serving(tmp_path) as local_broker:
            client = await local_broker.connect()
            assert (await client.fetch("stamped", 0)).high_watermark == len(JUMPS_MS)


async def test_a_clock_jump_does_not_prolong_a_waiting_fetch(tmp_path: Path, clock: Clock) -> None:
    async with serving(tmp_path, topics=(("a", 1),)) as local_broker:
        reader, writer = await local_broker.connect(), await local_broker.connect()
        for offset, _ in enumerate(clock.jumps()):
            await reader.send(fetch_request("a", offset, max_wait_ms=60_000), 12)
            assert (await writer.produce("a", stamped_now())).error_code == 0
            with trio.fail_after(10):
                assert (await reader.receive()).responses[0].partitions[0].records


async def test_group_members_survive_a_clock_jump(tmp_path: Path, clock: Clock) -> None:
    async with serving(tmp_path, topics=(("t", 2),), **CONFIGS) as local_broker:
        client = await local_broker.connect()
        await client.call(FindCoordinatorRequest("g"), 3)
        joined = await client.call(
            ConsumerGroupHeartbeatRequest(
                "g", "me", 0, rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
            ),
            1,
        )
        assert joined.error_code == 0
        for offset, _ in enumerate(clock.jumps()):
            beat = await client.call(ConsumerGroupHeartbeatRequest("g", "me", joined.member_epoch), 1)
            assert (beat.error_code, beat.member_epoch) == (0, joined.member_epoch)
            answer = await client.call(
                OffsetCommitRequest(
                    "g",
                    joined.member_epoch,
                    "me",
                    topics=[OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, offset)])],
                ),
                9,
            )
            assert answer.topics[0].partitions[0].error_code == 0


async def test_transactions_are_committed_after_the_clock_jumps(tmp_path: Path, clock: Clock) -> None:
    async with serving(tmp_path, **CONFIGS) as local_broker:
        client = await local_broker.connect()
        await client.create("t", message_timestamp_type="LogAppendTime")
        producer = await TransactionalClient(client).begin()
        for sequence, _ in enumerate(clock.jumps()):
            assert await producer.add(("t", 0)) == [ErrorCode.NONE]
            assert await producer.produce("t", sequence) is ErrorCode.NONE
            assert await producer.end(commit=True) is ErrorCode.NONE
            assert await producer.settled() == "CompleteCommit"
        answer = await client.fetch("t", 0, isolation_level=1)
        assert (answer.last_stable_offset, answer.aborted_transactions) == (2 * len(JUMPS_MS), [])
