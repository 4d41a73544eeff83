"""Tests of replication between brokers: acknowledgement, changes of the ISR, elections, truncation and restarts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
import trio.testing

from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.following.fetch_failures import LASTS_S
from pykbroker.sim.volume import Volume
from pykbroker.storage.log.appender import LogAppender
from tests.unit.apis.calling import context
from tests.unit.replica.brokers import LAG_MS_MAX, TOPIC_ID, Cluster, Link, batch, pause, responded
from tests.unit.replica.host import NOW_MS
from wire.error_codes import ErrorCode
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

Clock = trio.testing.MockClock
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


async def until(condition: Callable[[], bool], limit_s: float = 60) -> None:
    """Wait until a condition holds, in virtual time."""
    for _ in range(int(100 * limit_s)):
        if condition():
            return
        await pause(0.01)
    raise TimeoutError


def equal(cluster: Cluster, count: int, *node_ids: int) -> Callable[[], bool]:
    """Return a condition: these brokers have `count` records in equal logs, all below their high watermarks."""

    def holds() -> bool:
        if any(not cluster.brokers[each].has_partition for each in node_ids):
            return False
        brokers = [cluster.brokers[each] for each in node_ids]
        return (
            len({one.content() for one in brokers}) == 1
            and len(brokers[0].values()) == count
            and all(one.partition.high_watermark == one.partition.log.log_end_offset for one in brokers)
        )

    return holds


async def test_a_record_is_acknowledged_once_every_member_of_the_isr_has_it(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up():
        leader = cluster.brokers[1]
        for number in range(20):
            assert await leader.produce(b"%d" % number) == number
            assert all(one.values()[number:] == [b"%d" % number] for one in cluster.brokers.values())
        await until(equal(cluster, 20, 1, 2, 3))
        assert cluster.alterations == []


async def test_a_follower_that_is_cut_off_leaves_the_isr_and_comes_back(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up():
        leader = cluster.brokers[1]
        await leader.produce(b"first")
        cluster.cut |= {(3, 1), (1, 3)}
        began = trio.current_time()
        await leader.produce(b"second")  # waits until broker 3 has left the ISR
        assert LAG_MS_MAX / 1000 <= trio.current_time() - began <= 2 * LAG_MS_MAX / 1000
        assert cluster.alterations == [(1, 2)]
        cluster.cut.clear()
        await until(lambda: sorted(cluster.placed().isr) == [1, 2, 3])
        await until(equal(cluster, 2, 1, 2, 3))


async def test_without_the_minimum_of_replicas_nothing_is_acknowledged(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up(1, 2):
        leader = cluster.brokers[1]
        with trio.move_on_after(2 * LAG_MS_MAX / 1000):
            await leader.produce(b"to two")
        assert cluster.placed().isr == (1, 2)
        await cluster.kill(2)
        with trio.move_on_after(2 * LAG_MS_MAX / 1000) as limit:
            await leader.produce(b"never acknowledged")
        assert limit.cancelled_caught
        assert cluster.placed().isr == (1,)
        with pytest.raises(ApiError) as before:
            await leader.produce(b"refused")
        assert before.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert leader.partition.high_watermark == 1
        assert await leader.produce(b"with acks=1", acks_all=False) == 2
        assert leader.partition.high_watermark == 1


async def test_the_tail_of_an_old_leader_is_truncated(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up():
        old, new = cluster.brokers[1], cluster.brokers[2]
        await old.produce(b"kept")
        cluster.cut |= {(2, 1), (3, 1)}
        await pause(1)
        for number in range(5):
            await old.produce(b"lost %d" % number, acks_all=False)
        cluster.uninformed = {1}
        cluster.commit(leader=2, isr=(2, 3))
        await until(lambda: new.partition.is_leader)
        await new.produce(b"new")
        with trio.move_on_after(1):
            await old.produce(b"lost, too")
        assert len(old.values()) == 7
        cluster.uninformed, cluster.cut = set(), set()
        cluster.inform()
        await until(equal(cluster, 2, 1, 2, 3))
        assert old.values() == [b"kept", b"new"]
        await until(lambda: sorted(cluster.placed().isr) == [1, 2, 3])


async def test_a_waiting_produce_fails_when_the_leadership_ends(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up(1, 2):
        leader = cluster.brokers[1]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(moved_away_and_back, cluster)
            with pytest.raises(ApiError) as refused:
                await leader.produce(b"undecided")
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def moved_away_and_back(cluster: Cluster) -> None:
    await pause(1)
    cluster.commit(leader=2)
    cluster.commit(leader=1)


async def test_restarted_brokers_continue_from_their_logs(autojump_clock: Clock) -> None:
    cluster = Cluster(replicas=(2, 1, 3))
    async with cluster.up():
        for number in range(5):
            await cluster.brokers[2].produce(b"%d" % number)
        for node_id in (1, 3):
            await cluster.kill(node_id)
            await cluster.start(node_id)
        assert await cluster.brokers[2].produce(b"after") == 5
        await cluster.kill(2)
        cluster.commit(leader=1, isr=(1, 3))
        await until(lambda: cluster.brokers[1].partition.is_leader)
        assert await cluster.brokers[1].produce(b"on") == 6
        await cluster.start(2)
        await until(equal(cluster, 7, 1, 2, 3))


async def test_an_emptied_broker_is_filled_from_the_start_of_the_leaders_log(autojump_clock: Clock) -> None:
    cluster = Cluster(configs={"internal.segment.bytes": "300"})
    async with cluster.up():
        leader = cluster.brokers[1]
        for number in range(40):
            await leader.produce(b"%d" % number)
        await cluster.kill(3)
        cluster.commit(isr=(1, 2))
        cluster.set_broker(3, epoch=301)
        leader.partition.log.delete_records(17)
        await leader.partition.retain(NOW_MS)
        cluster.brokers[3].volume = Volume()
        await cluster.start(3)
        await until(lambda: sorted(cluster.placed().isr) == [1, 2, 3])
        log = cluster.brokers[3].partition.log
        assert (log.log_start_offset, log.log_end_offset) == (17, 40)
        await until(lambda: cluster.brokers[2].partition.log.log_start_offset == 17)


async def test_fetches_name_only_partitions_that_have_changed(autojump_clock: Clock) -> None:
    cluster = Cluster(partitions=300)
    async with cluster.up():
        await pause(2)
        cluster.requests.clear()
        leader = cluster.brokers[1].replicas.partition(TopicPartition("t", 123))
        for _ in range(10):
            leader.append(batch(b"value"), NOW_MS)
            await pause(2)
        fetches = [request for _, _, request in cluster.requests if isinstance(request, FetchRequest)]
        assert len(fetches) > 20
        named = {one.partition for request in fetches for topic in request.topics for one in topic.partitions}
        assert named == {123}
        assert {request.session_epoch > 0 for request in fetches} == {True}
        assert leader.high_watermark == 10


async def test_a_replica_that_is_reassigned_is_filled_and_the_old_one_is_deleted(autojump_clock: Clock) -> None:
    cluster = Cluster(replicas=(1, 2))
    async with cluster.up():
        for number in range(5):
            await cluster.brokers[1].produce(b"%d" % number)
        cluster.commit(replicas=(1, 2, 3), adding=(3,), directories=tuple(bytes([each]) * 16 for each in (1, 2, 3)))
        await until(lambda: cluster.placed().isr == (1, 2, 3))
        cluster.commit(replicas=(3, 1), isr=(3, 1), leader=3, directories=tuple(bytes([each]) * 16 for each in (3, 1)))
        await until(lambda: cluster.brokers[3].partition.is_leader)
        await until(lambda: TopicPartition("t", 0) not in cluster.brokers[2].directory.logs)
        assert not cluster.brokers[2].volume.root.entries.get("t-0")
        assert await cluster.brokers[3].produce(b"on") == 5
        await until(equal(cluster, 6, 1, 3))


async def test_a_follower_with_an_outdated_broker_epoch_does_not_join_the_isr(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up():
        leader = cluster.brokers[1]
        await leader.produce(b"first")
        cluster.set_broker(3, epoch=301)
        cluster.uninformed = {3}
        cluster.commit(isr=(1, 2))
        await leader.produce(b"second")
        await pause(5)
        assert cluster.placed().isr == (1, 2)
        cluster.uninformed = set()
        cluster.inform()
        await until(lambda: cluster.placed().isr == (1, 2, 3))


async def test_a_follower_that_cannot_write_one_partition_follows_the_others(
    autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster(partitions=2)
    append_stored = LogAppender.append_stored

    async with cluster.up():
        await pause(1)
        broken = cluster.brokers[2].replicas.partition(TopicPartition("t", 1)).log.appender

        def fail(appender, data):
            if appender is broken:
                raise OSError(28, "No space left on device")
            return append_stored(appender, data)

        monkeypatch.setattr(LogAppender, "append_stored", fail)
        await cluster.brokers[1].produce(b"works")
        cluster.brokers[1].replicas.partition(TopicPartition("t", 1)).append(batch(b"value"), NOW_MS)
        await pause(2)
        assert await cluster.brokers[1].produce(b"still") == 1
        assert caplog.text.count("t-1: cannot fetch from its leader 1") == 1
        monkeypatch.undo()
        leader = cluster.brokers[1].replicas.partition(TopicPartition("t", 1))
        await until(lambda: leader.high_watermark == 1)


async def test_a_leader_that_applies_metadata_later_is_logged_only_if_that_lasts(
    autojump_clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """A follower then logs one line for all partitions."""
    cluster = Cluster(partitions=3)

    def lines() -> list[str]:
        return [one.getMessage() for one in caplog.records if "cannot fetch" in one.getMessage()]

    async with cluster.up():
        await pause(1)
        cluster.uninformed = {1}
        for index in range(3):
            cluster.commit(index, leader=1)
        await pause(LASTS_S - 1)
        assert lines() == []
        await pause(3)
        assert len(lines()) == 2
        assert all("from its leader 1, and 2 more partitions: UNKNOWN_LEADER_EPOCH; retrying" in one for one in lines())
        await pause(60)
        assert len(lines()) == 2
        cluster.uninformed = set()
        cluster.inform()
        await pause(1)
        await cluster.brokers[1].produce(b"works")


async def test_the_latest_offset_is_not_told_before_the_new_epoch_is_committed(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up():
        await cluster.brokers[1].produce(b"first")
        cluster.cut |= {(1, 2), (3, 2)}
        await pause(5)
        await cluster.kill(1)
        cluster.commit(leader=2, isr=(2, 3))
        await until(lambda: cluster.brokers[2].partition.is_leader)
        assert cluster.brokers[2].partition.high_watermark == 0  # it has not learnt that the record is committed
        for timestamp in (LATEST, MAX_TIMESTAMP, 0):
            assert await found(cluster, 7, timestamp) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
        assert await found(cluster, 5) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
        assert await found(cluster, 4) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        assert await found(cluster, 5, replica_id=3) == (ErrorCode.NONE, 1)
        assert await found(cluster, 5, replica_id=-2) == (ErrorCode.NONE, 1)
        cluster.cut.clear()
        await until(equal(cluster, 1, 2, 3))
        assert await found(cluster, 5) == (ErrorCode.NONE, 1)
        assert await found(cluster, 7, MAX_TIMESTAMP) == (ErrorCode.NONE, 0)


async def test_a_tool_asks_any_replica_for_its_offsets(autojump_clock: Clock) -> None:
    """The replica id -2 is that of a tool, as in Kafka's ReplicaManager.fetchOffset."""
    cluster = Cluster()
    async with cluster.up():
        for value in (b"first", b"second"):
            await cluster.brokers[1].produce(value)
        await until(equal(cluster, 2, 1, 2, 3))
        assert not cluster.brokers[2].partition.is_leader
        for timestamp, offset in ((LATEST, 2), (EARLIEST, 0), (NOW_MS, 0), (NOW_MS + 1, -1)):
            assert await found(cluster, 7, timestamp, -2) == (ErrorCode.NONE, offset)
        assert await found(cluster, 7, MAX_TIMESTAMP, -2) in ((ErrorCode.NONE, 0), (ErrorCode.NONE, 1))
        for replica_id in (-1, 3):
            assert await found(cluster, 7, LATEST, replica_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        epoch = cluster.brokers[2].partition.leader_epoch
        for asked, code in ((epoch, 0), (epoch + 1, ErrorCode.UNKNOWN_LEADER_EPOCH)):
            assert (await found(cluster, 7, LATEST, -2, asked))[0] == code


async def found(
    cluster: Cluster, version: int, timestamp: int = LATEST, replica_id: int = -1, leader_epoch: int = -1
) -> tuple[int, int]:
    """Return the error code and the offset that broker 2 answers."""
    asked = ListOffsetsTopic("t", [ListOffsetsPartition(0, leader_epoch, timestamp)])
    request = ListOffsetsRequest(replica_id=replica_id, topics=[asked])
    response = await responded(cluster.brokers[2].handlers[ListOffsetsRequest](context(version), request))
    answer = response.topics[0].partitions[0]
    return ErrorCode(answer.error_code), answer.offset


async def test_with_flush_before_ack_a_follower_acknowledges_only_what_it_has_synced(autojump_clock: Clock) -> None:
    cluster = Cluster()
    for one in cluster.brokers.values():
        one.configs = {"pykbroker.flush.before.ack": "true"}
    async with cluster.up():
        leader = cluster.brokers[1]
        for number in range(5):
            partition = leader.partition
            appended = partition.append(batch(b"%d" % number), NOW_MS, None, True)
            await partition.flush_if_due()
            await partition.wait_committed(appended.last_offset + 1)
            followers = [cluster.brokers[each].partition.log for each in (2, 3)]
            assert [log.recovery_point for log in followers] == [number + 1] * 2
        states = leader.partition.role.followers.values()
        assert [state.log_end_offset for state in states] == [5, 5]


@pytest.mark.parametrize(
    ("broker_epoch", "refused"),
    [
        (299, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (300, ErrorCode.NONE),
        (301, ErrorCode.NONE),
        (10**9, ErrorCode.NONE),
        (-1, ErrorCode.NONE),
    ],
)
async def test_a_fetch_below_the_registered_broker_epoch_is_refused(
    autojump_clock: Clock, broker_epoch: int, refused: ErrorCode
) -> None:
    """A broker epoch above it may be one that the leader learns later, and has no effect on later fetches."""
    cluster = Cluster()
    async with cluster.up(1, 2):
        await pause(1)
        request = fetch_of_follower(ReplicaState(3, broker_epoch), offset=0)
        (found,) = (await Link(cluster, 3, 1).ask(request)).responses[0].partitions
        assert found.error_code == refused
        await cluster.start(3)
        await cluster.brokers[1].produce(b"value")
        await until(equal(cluster, 1, 1, 2, 3))
        assert cluster.placed().isr == (1, 2, 3)


def fetch_of_follower(follower: ReplicaState, offset: int, leader_epoch: int = -1) -> FetchRequest:
    """Return a fetch of partition 0 without a session, which is answered at once."""
    asked = FetchPartition(
        partition=0, current_leader_epoch=leader_epoch, fetch_offset=offset, partition_max_bytes=1 << 20
    )
    return FetchRequest(
        replica_state=follower,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[asked])],
    )


@pytest.mark.parametrize("epoch", [0, -1])
async def test_a_broker_that_has_no_replica_of_the_partition_is_refused(autojump_clock: Clock, epoch: int) -> None:
    """The leader may not know yet that the broker is a replica. Nothing is acknowledged by such a fetch."""
    cluster = Cluster(replicas=(1, 2))
    async with cluster.up(1, 2):
        leader = cluster.brokers[1]
        await leader.produce(b"value")
        asked = FetchPartition(
            partition=0, current_leader_epoch=epoch, fetch_offset=1, log_start_offset=0, partition_max_bytes=1 << 20
        )
        request = FetchRequest(
            replica_state=ReplicaState(3, cluster.image.cluster.brokers[3].epoch),
            max_wait_ms=30_000,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[asked])],
        )
        response = await Link(cluster, 3, 1).ask(request)
        (found,) = response.responses[0].partitions
        refused = ErrorCode.UNKNOWN_LEADER_EPOCH if epoch >= 0 else ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (found.error_code, found.records or b"") == (refused, b"")
        assert set(cluster.placed().isr) == {1, 2}
        assert leader.partition.leading is not None
        assert 3 not in leader.partition.leading.followers
