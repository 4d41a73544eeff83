"""Tests of the fetch sessions that followers leave: they take neither a slot of the cache nor the time of appends."""

from __future__ import annotations

from typing import Any

import trio.testing
from msgspec.structs import replace

from pykbroker.core.metadata.image import Delta, TopicsImage
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.replica.partition.partition import Partition
from tests.unit.replica.brokers import TOPIC_ID, Broker, Cluster, Link, batch, pause
from tests.unit.replica.host import NOW_MS
from tests.unit.replica.test_replication import until
from wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic, ReplicaState

Clock = trio.testing.MockClock
ROUNDS = 12
FOLLOWERS = 2


def partition(broker: Broker, index: int) -> Partition:
    return broker.replicas.partition(TopicPartition("t", index))


def followers(broker: Broker, partitions: int) -> int:
    """Return the largest number of sessions that an append to a partition of this broker costs time for."""
    for index in range(partitions):
        partition(broker, index).append(batch(b"value"), NOW_MS)
    return max(len(partition(broker, index).followers) for index in range(partitions))


async def test_a_session_of_a_killed_follower_ends_when_its_broker_registers_again(autojump_clock: Clock) -> None:
    cluster = Cluster(partitions=3)
    async with cluster.up():
        leader = cluster.brokers[1]
        for number in range(ROUNDS):
            await cluster.kill(3)
            cluster.set_broker(3, epoch=301 + number)
            await cluster.start(3)
            await until(lambda: len(partition(leader, 0).followers) > 1)
            await pause(1)
            assert leader.sessions.statistics().sessions == FOLLOWERS
            assert followers(leader, 3) == FOLLOWERS


async def test_a_session_ends_though_the_leader_learns_the_registration_after_its_first_fetch(
    autojump_clock: Clock,
) -> None:
    cluster = Cluster()
    async with cluster.up():
        leader = cluster.brokers[1]
        await pause(1)
        await cluster.kill(3)
        cluster.uninformed = {1}
        cluster.set_broker(3, epoch=301)
        await cluster.start(3)
        await pause(1)
        assert leader.sessions.statistics().sessions == FOLLOWERS + 1
        cluster.uninformed = set()
        cluster.inform()
        await pause(1)
        assert leader.sessions.statistics().sessions == FOLLOWERS
        assert followers(leader, 1) == FOLLOWERS


async def test_a_session_ends_when_its_fetcher_has_no_partition_any_more(autojump_clock: Clock) -> None:
    cluster = Cluster(partitions=2)
    async with cluster.up():
        await pause(1)
        for number in range(ROUNDS):
            leader = 1 + number % 2
            for index in range(2):
                cluster.commit(index, leader=leader)
            await pause(2)
            sessions = {each: cluster.brokers[each].sessions.statistics().sessions for each in (1, 2, 3)}
            assert sessions == {1: 0, 2: 0, 3: 0} | {leader: FOLLOWERS}
            assert followers(cluster.brokers[leader], 2) == FOLLOWERS


async def test_the_end_of_a_fetcher_waits_for_no_leader(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up():
        await pause(1)
        cluster.cut = {(3, 1), (1, 3)}
        cluster.commit(leader=2)
        await until(lambda: cluster.brokers[2].partition.is_leader and len(cluster.brokers[2].partition.followers) > 1)
        await cluster.brokers[2].produce(b"value")
        assert cluster.brokers[3].values() == [b"value"]


async def fetch_of_3(cluster: Cluster, epoch: int, *indexes: int, session_id: int = 0) -> FetchResponse:
    """Ask broker 1 for partitions as a follower whose requests name no session that it has left."""
    request = FetchRequest(
        replica_state=ReplicaState(3, epoch),
        max_wait_ms=0,
        session_id=session_id,
        session_epoch=0,
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[FetchPartition(partition=one) for one in indexes])],
    )
    return await Link(cluster, 3, 1).ask(request)


async def test_a_broker_has_one_session_for_a_partition_whichever_it_has_left(autojump_clock: Clock) -> None:
    """Kafka's followers end no session when a fetcher has no partition any more."""
    cluster = Cluster(partitions=2, replicas=(1, 3))
    async with cluster.up(1):
        leader = cluster.brokers[1]
        for _ in range(ROUNDS):
            await fetch_of_3(cluster, 300, 0, 1)
        assert leader.sessions.statistics()[:2] == (1, 2)
        assert followers(leader, 2) == 1
        await fetch_of_3(cluster, 300, 0)
        await fetch_of_3(cluster, 300, 1)
        await fetch_of_3(cluster, 300, 1)
        assert leader.sessions.statistics().sessions == 2
        assert followers(leader, 2) == 1


async def test_a_fetch_of_another_broker_epoch_takes_no_partition_from_a_follower(autojump_clock: Clock) -> None:
    cluster = Cluster(replicas=(1, 3))
    async with cluster.up(1, 3):
        await pause(1)
        for epoch in (-1, 299, 10**9):
            await fetch_of_3(cluster, epoch, 0)
            await cluster.brokers[1].produce(b"%d" % epoch)
        assert cluster.brokers[3].values() == [b"-1", b"299", b"1000000000"]


async def test_a_session_that_its_follower_names_when_it_opens_another_is_closed_at_once(autojump_clock: Clock) -> None:
    cluster = Cluster(replicas=(1, 3))
    async with cluster.up(1):
        leader, session_id = cluster.brokers[1], 0
        for _ in range(ROUNDS):
            session_id = (await fetch_of_3(cluster, 300, 0, session_id=session_id)).session_id
            assert session_id
        assert leader.sessions.statistics().sessions == 1
        assert followers(leader, 1) == 1


async def test_sessions_have_no_partition_of_a_deleted_topic(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up():
        leader = cluster.brokers[1]
        await pause(1)
        partition = leader.partition
        sessions: Any = partition.followers
        assert len(sessions) == FOLLOWERS
        cluster.uninformed = {1, 2, 3}
        topic, previous = cluster.image.topics.by_name["t"], cluster.image
        cluster.publish(topics=TopicsImage())
        delta = replace(Delta.since_nothing(cluster.image), previous=previous, topics_deleted=(topic,))
        await leader.replicas.apply(delta)
        await pause(5)
        assert partition.followers == ()
        assert not any(partition in session for session in sessions)
        assert not any(partition in session.due for session in sessions)


async def test_a_request_may_name_a_partition_that_it_forgets(autojump_clock: Clock) -> None:
    """Kafka adds the named partitions to a session first, and then removes the forgotten ones."""
    cluster = Cluster(partitions=2, replicas=(1, 3))
    async with cluster.up(1):
        leader = cluster.brokers[1]
        opened = await fetch_of_3(cluster, 300, 0, 1)
        request = FetchRequest(
            replica_state=ReplicaState(3, 300),
            max_wait_ms=0,
            session_id=opened.session_id,
            session_epoch=1,
            topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[FetchPartition(partition=1)])],
            forgotten_topics_data=[ForgottenTopic(topic_id=TOPIC_ID, partitions=[1])],
        )
        response = await Link(cluster, 3, 1).ask(request)
        assert (response.error_code, response.responses) == (0, [])
        assert [len(partition(leader, index).followers) for index in range(2)] == [1, 0]
