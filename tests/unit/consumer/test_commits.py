"""Commits: by the user, at intervals, and at the end."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from pykbroker.consumer import CommittedOffset
from pykbroker.core.consumer.errors import CommitFailed, ConsumerTimeout
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from tests.unit.consumer.conftest import GROUP, Consuming, values_of
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.offset_commit import OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic

PATIENCE_S = 10


def refusal(code: ErrorCode) -> Any:
    """Return a function that refuses all offsets of a commit."""

    def refused(request: Any) -> OffsetCommitResponse:
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    topic.name,
                    topic.topic_id,
                    [OffsetCommitResponsePartition(each.partition_index, code) for each in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    return refused


async def test_a_commit_without_offsets_commits_the_positions(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"a", b"b")
    async with consuming.member() as consumer:
        await values_of(consumer, 2)
        assert await consuming.committed() is None
        await consumer.commit()
    assert await consuming.committed() == 2
    assert await consuming.committed(1) == 0


async def test_records_that_were_not_returned_are_not_committed(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"a", b"b", b"c")
    async with consuming.member() as consumer:
        await anext(consumer)
        await anext(consumer)
        await consumer.commit()
    assert await consuming.committed() == 2


async def test_a_commit_of_offsets_keeps_their_epoch_and_text(autojump_clock, consuming: Consuming) -> None:
    offset = CommittedOffset(1, 0, "text")
    first, second, _ = consuming.partitions
    async with consuming.consumer(group_id=GROUP) as consumer:
        consumer.assign(consuming.partitions[:1])
        await consumer.commit({first: offset})
        assert await consumer.committed([first, second]) == {first: offset, second: None}


async def test_an_offset_to_commit_may_be_a_number(autojump_clock, consuming: Consuming) -> None:
    async with consuming.consumer(group_id=GROUP) as consumer:
        await consumer.commit({consuming.partitions[0]: 5})
    assert await consuming.committed() == 5


async def test_what_is_no_offset_is_not_committed(autojump_clock, consuming: Consuming) -> None:
    async with consuming.consumer(group_id=GROUP) as consumer:
        with pytest.raises(TypeError, match="topic-0: '5' is neither a CommittedOffset nor a number"):
            await consumer.commit({consuming.partitions[0]: "5"})  # type: ignore[dict-item]
        with pytest.raises(ValueError, match="topic-0: the offset -1 is negative"):
            await consumer.commit({consuming.partitions[0]: CommittedOffset(-1)})


async def test_a_consumer_without_a_group_cannot_commit(autojump_clock, consuming: Consuming) -> None:
    async with consuming.consumer("topic") as consumer:
        for call in (consumer.commit(), consumer.committed(consuming.partitions)):
            with pytest.raises(ApiError, match="set group_id") as raised:
                await call
            assert raised.value.code is ErrorCode.INVALID_GROUP_ID


async def test_a_new_member_begins_at_the_committed_offset(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"a", b"b", b"c")
    async with consuming.consumer(group_id=GROUP) as consumer:
        await consumer.commit({consuming.partitions[0]: CommittedOffset(2)})
    async with consuming.member() as consumer:
        assert await values_of(consumer, 1) == [b"c"]


@pytest.mark.parametrize(
    "code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID]
)
async def test_a_member_that_was_replaced_cannot_commit(autojump_clock, consuming: Consuming, code: ErrorCode) -> None:
    consuming.append(b"a")
    async with consuming.member() as consumer:
        await values_of(consumer, 1)
        consuming.answer_with(ApiKey.OFFSET_COMMIT, refusal(code), times=1)
        error = ApiError if code is ErrorCode.FENCED_INSTANCE_ID else CommitFailed
        with pytest.raises(error):
            await consumer.commit()


async def test_a_removed_member_rejoins_and_reads_again(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"a")
    async with consuming.member() as consumer:
        await values_of(consumer, 1)
        consuming.answer_with(ApiKey.OFFSET_COMMIT, refusal(ErrorCode.UNKNOWN_MEMBER_ID), times=1)
        with pytest.raises(CommitFailed, match="poll again to rejoin"):
            await consumer.commit()
        assert await values_of(consumer, 1) == [b"a"]
        await consumer.commit()
    assert await consuming.committed() == 1


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
)
async def test_a_retriable_error_is_retried(autojump_clock, consuming: Consuming, code: ErrorCode) -> None:
    async with consuming.consumer(group_id=GROUP) as consumer:
        consuming.answer_with(ApiKey.OFFSET_COMMIT, refusal(code), times=3)
        await consumer.commit({consuming.partitions[0]: CommittedOffset(4)})
    assert await consuming.committed() == 4
    assert len(consuming.cluster.requests_of(ApiKey.OFFSET_COMMIT)) == 4


async def test_a_commit_that_is_retried_for_too_long_is_a_time_out(autojump_clock, consuming: Consuming) -> None:
    async with consuming.consumer(group_id=GROUP, default_api_timeout_ms=3000) as consumer:
        consuming.answer_with(ApiKey.OFFSET_COMMIT, refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        with pytest.raises(ConsumerTimeout):
            await consumer.commit({consuming.partitions[0]: CommittedOffset(4)})
        assert consuming.elapsed() == pytest.approx(3, abs=0.1)


async def test_metadata_that_is_too_large_is_raised(autojump_clock, consuming: Consuming) -> None:
    async with consuming.consumer(group_id=GROUP) as consumer:
        with pytest.raises(ApiError) as raised:
            await consumer.commit({consuming.partitions[0]: CommittedOffset(4, metadata="x" * 5000)})
        assert raised.value.code is ErrorCode.OFFSET_METADATA_TOO_LARGE


# ---- automatic commits


async def test_only_a_poll_commits_after_the_interval(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"a")
    async with consuming.member(enable_auto_commit=True, auto_commit_interval_ms=1000) as consumer:
        await values_of(consumer, 1)
        await trio.sleep(5)
        assert await consuming.committed() is None
        consuming.append(b"b")
        assert [each.value for each in await consumer.poll(PATIENCE_S)] == [b"b"]
        await trio.sleep(0.1)
        assert await consuming.committed() == 1


async def test_a_failed_automatic_commit_is_repeated_and_not_raised(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"a")
    async with consuming.member(enable_auto_commit=True, auto_commit_interval_ms=1000) as consumer:
        await values_of(consumer, 1)
        consuming.answer_with(ApiKey.OFFSET_COMMIT, refusal(ErrorCode.OFFSET_METADATA_TOO_LARGE), times=1)
        for _ in range(4):
            await consumer.poll(1)
        assert await consuming.committed() == 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_the_end_commits_what_was_returned(autojump_clock, consuming: Consuming, protocol: str) -> None:
    consuming.append(b"a", b"b")
    async with consuming.member(enable_auto_commit=True, group_protocol=protocol, max_poll_records=1) as consumer:
        await values_of(consumer, 1)
    assert await consuming.committed() == 1


async def test_an_error_in_the_block_commits_nothing(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"a")
    consumer = consuming.member(enable_auto_commit=True)

    async def fail() -> None:
        async with consumer:
            await values_of(consumer, 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await consuming.committed() is None


async def test_a_rebalance_commits_before_partitions_are_given_away(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"a")
    async with consuming.member(enable_auto_commit=True, auto_commit_interval_ms=1_000_000) as consumer:
        await values_of(consumer, 1)
        consuming.state.add_topic("other")
        consumer.subscribe(["other"])
        while TopicPartition("other", 0) not in consumer.assignment:
            await consumer.poll(0.1)
        assert await consuming.committed() == 1
