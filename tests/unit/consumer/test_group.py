"""Groups: assignments, the calls of the listener, errors of a membership, and the end."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
import trio

from pykbroker.consumer import Consumer
from pykbroker.consumer.listener import RebalanceListener
from pykbroker.consumer.poller import ConsumerPoller
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from tests.unit.consumer.conftest import GROUP, Consuming, values_of
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.header import RequestHeader
from wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from wire.messages.describe_groups import DescribeGroupsRequest
from wire.messages.heartbeat import HeartbeatResponse
from wire.messages.join_group import JoinGroupResponse

PATIENCE_S = 30
BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])


class Heard(RebalanceListener):
    """A listener that notes its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []

    def on_partitions_assigned(self, partitions: Any) -> None:
        self._note("assigned", partitions)

    def on_partitions_revoked(self, partitions: Any) -> None:
        self._note("revoked", partitions)

    def on_partitions_lost(self, partitions: Any) -> None:
        self._note("lost", partitions)

    def _note(self, event: str, partitions: set[TopicPartition]) -> None:
        assert isinstance(partitions, set)
        self.calls.append((event, sorted(each.partition for each in partitions)))


async def member_count(consuming: Consuming, protocol: str = "classic") -> int:
    """Return the number of members that the coordinator knows."""
    if protocol == "consumer":
        request: Any = ConsumerGroupDescribeRequest([GROUP])
    else:
        request = DescribeGroupsRequest([GROUP])
    header = RequestHeader(request.key, 1, 0, "test")
    response: Any = await consuming.cluster.nodes[1].handle(header, request)
    return len(response.groups[0].members)


async def poll_until(consumer: Consumer, count: int) -> None:
    """Poll until the consumer has this number of partitions."""
    while len(consumer.assignment) != count:
        await consumer.poll(0.1)


@BOTH
async def test_the_listener_hears_of_all_partitions(autojump_clock, consuming: Consuming, protocol: str) -> None:
    heard = Heard()
    async with consuming.consumer(group_id=GROUP, group_protocol=protocol) as consumer:
        consumer.subscribe(["topic"], heard)
        await poll_until(consumer, 3)
        assert heard.calls == [("assigned", [0, 1, 2])]
    assert heard.calls == [("assigned", [0, 1, 2]), ("revoked", [0, 1, 2])]


@BOTH
async def test_a_second_member_gets_its_share(
    autojump_clock, consuming: Consuming, protocol: str, nursery: trio.Nursery
) -> None:
    heard = Heard()

    async def keep_polling(consumer: Consumer) -> None:
        while True:
            await consumer.poll(0.1)

    first = consuming.consumer(group_id=GROUP, group_protocol=protocol)
    async with first, consuming.member(group_protocol=protocol) as second:
        first.subscribe(["topic"], heard)
        await poll_until(first, 3)
        nursery.start_soon(keep_polling, first)
        while not second.assignment:
            await second.poll(0.1)
        await trio.sleep(10)
        assert first.assignment | second.assignment == set(consuming.partitions)
        assert not first.assignment & second.assignment
        nursery.cancel_scope.cancel()


async def test_a_listener_may_seek_before_the_first_record(autojump_clock, consuming: Consuming) -> None:
    consuming.append(b"a", b"b", b"c")

    class Seeking(RebalanceListener):
        async def on_partitions_assigned(self, partitions: Any) -> None:
            await trio.sleep(1)
            consumer.seek(consuming.partitions[0], 2)

    async with consuming.consumer(group_id=GROUP) as consumer:
        consumer.subscribe(["topic"], Seeking())
        assert await values_of(consumer, 1) == [b"c"]


async def test_the_error_of_a_listener_is_raised_in_the_poll(autojump_clock, consuming: Consuming) -> None:
    class Failing(RebalanceListener):
        def on_partitions_assigned(self, partitions: Any) -> None:
            raise ZeroDivisionError

    consuming.append(b"a")
    async with consuming.consumer(group_id=GROUP) as consumer:
        consumer.subscribe(["topic"], Failing())
        with pytest.raises(ZeroDivisionError):
            await consumer.poll(PATIENCE_S)
        assert await values_of(consumer, 1) == [b"a"]


class Interrupted(Heard):
    """A listener whose first call does not return."""

    def __init__(self, error: BaseException | None) -> None:
        super().__init__()
        self._error = error

    async def on_partitions_assigned(self, partitions: Any) -> None:  # type: ignore[override]
        self._note("assigned", partitions)
        if len(self.calls) == 1:
            if self._error is not None:
                raise self._error
            await trio.sleep_forever()


@pytest.mark.parametrize(
    ("error", "calls"),
    [(KeyboardInterrupt(), 2), (SystemExit(), 2), (None, 1)],
    ids=["KeyboardInterrupt", "SystemExit", "cancelled"],
)
async def test_a_call_of_the_listener_that_is_interrupted_is_repeated_by_the_next_poll(
    autojump_clock, consuming: Consuming, error: BaseException | None, calls: int
) -> None:
    consuming.append(b"a")
    heard = Interrupted(error)
    async with consuming.consumer(group_id=GROUP) as consumer:
        consumer.subscribe(["topic"], heard)
        with trio.move_on_after(PATIENCE_S), suppress(KeyboardInterrupt, SystemExit):
            await consumer.poll()
        assert await values_of(consumer, 1) == [b"a"]
        assert heard.calls == [("assigned", [0, 1, 2])] * calls


# ---- errors


def heartbeat_error(protocol: str, code: ErrorCode) -> tuple[ApiKey, Any]:
    if protocol == "consumer":
        return ApiKey.CONSUMER_GROUP_HEARTBEAT, ConsumerGroupHeartbeatResponse(error_code=code)
    return ApiKey.HEARTBEAT, HeartbeatResponse(error_code=code)


@BOTH
async def test_a_failed_membership_ends_the_poll(autojump_clock, consuming: Consuming, protocol: str) -> None:
    async with consuming.member(group_protocol=protocol, group_instance_id="static") as consumer:
        await poll_until(consumer, 3)
        key, response = heartbeat_error(protocol, ErrorCode.FENCED_INSTANCE_ID)
        consuming.answer_with(key, lambda _: response, times=1)
        with trio.fail_after(60), pytest.raises(ApiError) as raised:
            await values_of(consumer, 1)
        assert raised.value.code is ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize(
    "code",
    [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.GROUP_MAX_SIZE_REACHED],
)
async def test_a_refused_join_ends_the_poll(autojump_clock, consuming: Consuming, code: ErrorCode) -> None:
    consuming.answer_with(ApiKey.JOIN_GROUP, lambda _: JoinGroupResponse(error_code=code), times=1)
    async with consuming.member() as consumer:
        with trio.fail_after(60), pytest.raises(ApiError) as raised:
            await values_of(consumer, 1)
        assert raised.value.code is code
        await poll_until(consumer, 3)


@pytest.mark.parametrize("code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_ASSIGNOR])
async def test_a_refused_member_of_a_consumer_group_ends_the_poll(
    autojump_clock, consuming: Consuming, code: ErrorCode
) -> None:
    response = ConsumerGroupHeartbeatResponse(error_code=code, error_message="refused")
    consuming.answer_with(ApiKey.CONSUMER_GROUP_HEARTBEAT, lambda _: response, times=1)
    async with consuming.member(group_protocol="consumer") as consumer:
        with trio.fail_after(60), pytest.raises(ApiError, match="refused") as raised:
            await values_of(consumer, 1)
        assert raised.value.code is code


@pytest.mark.parametrize(
    ("protocol", "code"),
    [
        ("classic", ErrorCode.UNKNOWN_MEMBER_ID),
        ("classic", ErrorCode.ILLEGAL_GENERATION),
        ("consumer", ErrorCode.UNKNOWN_MEMBER_ID),
        ("consumer", ErrorCode.FENCED_MEMBER_EPOCH),
    ],
)
async def test_a_removed_member_loses_its_partitions_and_joins_again(
    autojump_clock, consuming: Consuming, protocol: str, code: ErrorCode
) -> None:
    heard = Heard()
    async with consuming.consumer(group_id=GROUP, group_protocol=protocol) as consumer:
        consumer.subscribe(["topic"], heard)
        await poll_until(consumer, 3)
        key, response = heartbeat_error(protocol, code)
        consuming.answer_with(key, lambda _: response, times=1)
        while len(heard.calls) < 3:
            await consumer.poll(1)
        assert heard.calls == [("assigned", [0, 1, 2]), ("lost", [0, 1, 2]), ("assigned", [0, 1, 2])]


@BOTH
async def test_a_member_that_does_not_poll_leaves(autojump_clock, consuming: Consuming, protocol: str) -> None:
    heard = Heard()
    settings = {"group_protocol": protocol, "max_poll_interval_ms": 20_000, "session_timeout_ms": 10_000}
    if protocol == "consumer":
        del settings["session_timeout_ms"]
    async with consuming.consumer(group_id=GROUP, **settings) as consumer:
        consumer.subscribe(["topic"], heard)
        await poll_until(consumer, 3)
        await trio.sleep(30)
        assert await member_count(consuming, protocol) == 0
        while len(heard.calls) < 3:
            await consumer.poll(1)
        assert [event for event, _ in heard.calls] == ["assigned", "lost", "assigned"]


# ---- the coordinator


@BOTH
async def test_a_member_follows_its_coordinator(autojump_clock, consuming: Consuming, protocol: str) -> None:
    async with consuming.member(group_protocol=protocol) as consumer:
        await poll_until(consumer, 3)
        consuming.cluster.groups.move(GROUP, 2)
        for _ in range(20):
            await consumer.poll(1)
        consuming.append(b"a")
        assert await values_of(consumer, 1) == [b"a"]
        await consumer.commit()
        assert consuming.cluster.nodes[2].requests_of(ApiKey.OFFSET_COMMIT)


# ---- the end


@BOTH
async def test_a_member_leaves_at_the_end_of_its_block(autojump_clock, consuming: Consuming, protocol: str) -> None:
    async with consuming.member(group_protocol=protocol) as consumer:
        await poll_until(consumer, 3)
        assert await member_count(consuming, protocol) == 1
    assert await member_count(consuming, protocol) == 0


@BOTH
async def test_a_member_whose_block_is_cancelled_leaves(autojump_clock, consuming: Consuming, protocol: str) -> None:
    with trio.move_on_after(10) as scope:
        async with consuming.member(group_protocol=protocol) as consumer:
            await values_of(consumer, 1)
    assert scope.cancelled_caught
    assert await member_count(consuming, protocol) == 0


@BOTH
async def test_a_member_leaves_when_its_tasks_are_cancelled(
    autojump_clock, consuming: Consuming, protocol: str
) -> None:
    async def poll_too(consumer: Consumer) -> None:
        await trio.sleep_forever()

    with trio.move_on_after(10):
        async with consuming.member(group_protocol=protocol) as consumer, trio.open_nursery() as tasks:
            tasks.start_soon(poll_too, consumer)
            await values_of(consumer, 1)
    assert await member_count(consuming, protocol) == 0


async def test_a_cancelled_member_does_not_wait_for_a_lost_coordinator(autojump_clock, consuming: Consuming) -> None:
    with trio.move_on_after(10):
        async with consuming.member() as consumer:
            await poll_until(consumer, 3)
            for node in consuming.cluster.nodes.values():
                node.stop()
            await values_of(consumer, 1)
    assert consuming.elapsed() < 12


@BOTH
async def test_unsubscribe_leaves_and_subscribe_joins(autojump_clock, consuming: Consuming, protocol: str) -> None:
    heard = Heard()
    async with consuming.consumer(group_id=GROUP, group_protocol=protocol) as consumer:
        consumer.subscribe(["topic"], heard)
        await poll_until(consumer, 3)
        await consumer.unsubscribe()
        assert (consumer.assignment, consumer.subscription) == (frozenset(), frozenset())
        assert await member_count(consuming, protocol) == 0
        consumer.subscribe(["topic"], heard)
        await poll_until(consumer, 3)
    assert [event for event, _ in heard.calls] == ["assigned", "revoked", "assigned", "revoked"]


async def test_a_static_member_keeps_its_place(autojump_clock, consuming: Consuming) -> None:
    async with consuming.member(group_instance_id="static") as consumer:
        await poll_until(consumer, 3)
    assert await member_count(consuming) == 1
    assert not consuming.cluster.requests_of(ApiKey.LEAVE_GROUP)


async def test_a_poll_of_assigned_partitions_with_a_group_id_sleeps(
    autojump_clock, consuming: Consuming, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with consuming.consumer(group_id=GROUP) as consumer:
        consumer.assign(consuming.partitions)
        await consumer.poll(1)
        steps: list[None] = []
        original = ConsumerPoller._user_step

        def counted(poller: ConsumerPoller) -> Any:
            steps.append(None)
            return original(poller)

        monkeypatch.setattr(ConsumerPoller, "_user_step", counted)
        await consumer.poll(0.01)
        assert len(steps) < 10
