"""Full disks: replicas leave the ISR and the leadership beside healthy ones, and return without being fetched anew."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from pykbroker.core.errors import ApiError
from pykbroker.core.ids import LOST
from pykbroker.core.replication.fetch_plan import FollowedAnswer
from pykbroker.core.replication.following import Following
from pykbroker.core.replication.quota import ReplicationQuota
from pykbroker.core.replication.unwritable import UNWRITABLE_MS_MAX
from pykbroker.replica.following.fetch_settings import ReplicaFetchSettings
from pykbroker.replica.following.fetcher import ReplicaFetcher
from pykbroker.replica.following.followed import Followed
from pykbroker.sim.disk import TEBIBYTE
from pykbroker.sim.volume import Volume
from pykbroker.storage.files.room import ROOM_BYTES_MIN
from tests.unit.replica.brokers import Broker, Cluster, pause
from tests.unit.replica.care.test_repairs import fill, names, own
from tests.unit.replica.host import IDS, TOPIC_ID, Host
from tests.unit.replica.test_replication import equal, until
from wire.error_codes import ErrorCode
from wire.messages.fetch import PartitionData
from wire.sentinels import NO_LEADER

Clock = trio.testing.MockClock
COUNT = 5
LATE_S = UNWRITABLE_MS_MAX / 1000
SETTINGS = ReplicaFetchSettings()
LEFT_BYTES = SETTINGS.response_bytes_max - SETTINGS.partition_bytes_max
SOON_S = 1.0
"""A time in which a report reaches the controller, and its metadata the brokers."""


def take_room(broker: Broker, left: int = 0) -> None:
    """Fill the disk of a broker up to `left` bytes."""
    broker.disk.faults.room_bytes = broker.volume.used_bytes() + left


def give_room(broker: Broker) -> None:
    broker.disk.faults.room_bytes = TEBIBYTE


async def is_refused(broker: Broker) -> None:
    """Check that the broker refuses a write for lack of room."""
    with pytest.raises(ApiError) as refusal:
        await broker.produce(b"refused")
    assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR


async def write(cluster: Cluster) -> None:
    """Produce a record to whoever leads, until it is acknowledged. It may be written twice."""
    while True:
        with suppress(ApiError):
            await cluster.brokers[cluster.placed().leader].produce(b"more")
            return
        await pause(0.1)


async def write_on(cluster: Cluster) -> None:
    """Produce until cancelled."""
    while True:
        await write(cluster)


def end_offset(cluster: Cluster) -> int:
    log = cluster.brokers[cluster.placed().leader].partition.log
    assert log is not None
    return log.log_end_offset


@pytest.mark.parametrize("is_under_kafka", [False, True])
async def test_a_full_leader_is_replaced_and_returns_without_being_fetched_anew(
    autojump_clock: Clock, is_under_kafka: bool
) -> None:
    """Under Kafka's controller a lost replica may join the ISR, until it lags for replica.lag.time.max.ms."""
    cluster = Cluster()
    cluster.is_under_kafka = is_under_kafka
    async with cluster.up():
        await fill(cluster, COUNT)
        full = cluster.brokers[1]
        await until(equal(cluster, COUNT, 1, 2, 3))
        take_room(full)
        await is_refused(full)
        await pause(LATE_S - 0.1)
        assert (cluster.placed().leader, cluster.reports) == (1, [])
        await until(lambda: cluster.placed().leader == 2)
        assert is_under_kafka or cluster.placed().isr == (2, 3)
        assert cluster.placed().directory(1) == LOST
        await fill(cluster, COUNT)
        assert full.partition.log.log_end_offset == COUNT
        await pause(60)
        assert (cluster.placed().isr, cluster.placed().directory(1)) == ((2, 3), LOST)
        give_room(full)
        await until(lambda: cluster.placed().directory(1) == own(1))
        await until(lambda: set(cluster.placed().isr) == {1, 2, 3})
        await until(equal(cluster, 2 * COUNT, 1, 2, 3))
        assert [*dict.fromkeys(cluster.reports)] == [(1, LOST), (1, own(1))]
        assert is_under_kafka or len(cluster.reports) == 2
        assert names(full) == ["t-0"]
        assert full.partition.repair is None
        await until(lambda: full.partition.unwritable is None)


async def test_a_full_follower_does_not_stop_writes_of_all_replicas(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up():
        await fill(cluster, COUNT)
        full = cluster.brokers[3]
        take_room(full)
        began_s = trio.current_time()
        await write(cluster)
        assert trio.current_time() - began_s < LATE_S + SOON_S
        assert cluster.placed().isr == (1, 2)
        await fill(cluster, COUNT)
        give_room(full)
        await until(lambda: set(cluster.placed().isr) == {1, 2, 3})
        await until(equal(cluster, end_offset(cluster), 1, 2, 3))
        assert cluster.reports == [(3, LOST), (3, own(3))]


@pytest.mark.parametrize(
    ("others_bytes", "high_watermark", "is_level"),
    [(0, 0, True), (0, 1, False), (LEFT_BYTES - 1, 0, True), (LEFT_BYTES, 0, True), (LEFT_BYTES + 1, 0, False)],
)
async def test_a_follower_lacks_nothing_if_the_response_had_room_for_its_records(
    others_bytes: int, high_watermark: int, is_level: bool
) -> None:
    host = Host((Volume(), Volume()), IDS[0])
    partition = await host.open()
    partition.resign(Following(1))
    followed = Followed(partition, (TOPIC_ID, 0), 2, 1, host.replicas.moves.restart)
    link: Any = None
    fetcher = ReplicaFetcher(1, 2, link, SETTINGS, ReplicationQuota(), count(1))
    partition.note_refused_append()
    position = followed.position
    assert position is not None
    outdated = msgspec.structs.replace(position, offset=99)
    answers = (
        FollowedAnswer(followed, outdated, PartitionData(records=bytes(others_bytes))),
        FollowedAnswer(followed, position, PartitionData(high_watermark=high_watermark)),
    )
    await fetcher._take([(followed.key, answer) for answer in answers])
    assert partition.unwritable is not None
    assert partition.unwritable.is_level is is_level


async def test_a_follower_that_lacks_nothing_returns_once_its_disk_has_room(autojump_clock: Clock) -> None:
    """With min.insync.replicas of two replicas, the leader takes no record before the replica has returned."""
    cluster = Cluster(replicas=(1, 2))
    async with cluster.up(1, 2):
        await fill(cluster, COUNT)
        await until(equal(cluster, COUNT, 1, 2))
        full = cluster.brokers[1]
        take_room(full)
        await is_refused(full)
        await until(lambda: cluster.placed().leader == 2)
        take_room(full, ROOM_BYTES_MIN - 1)
        await pause(60)
        assert cluster.placed().isr == (2,)
        assert cluster.refusals == [ErrorCode.INELIGIBLE_REPLICA]  # the leader proposes a lost replica once
        take_room(full, ROOM_BYTES_MIN)
        await until(lambda: set(cluster.placed().isr) == {1, 2})
        assert "pykbroker.room" not in full.volume.find_directory("").entries
        await fill(cluster, COUNT)
        await until(equal(cluster, 2 * COUNT, 1, 2))


async def test_the_tail_of_a_full_leader_that_nobody_has_is_cut_and_nothing_acknowledged_is_lost(
    autojump_clock: Clock,
) -> None:
    cluster = Cluster()
    async with cluster.up():
        await fill(cluster, COUNT)
        full = cluster.brokers[1]
        cluster.cut = {(2, 1), (3, 1), (1, 2), (1, 3)}
        await full.produce(b"only here", acks_all=False)
        take_room(full)
        await is_refused(full)
        await pause(LATE_S + SOON_S)
        assert cluster.placed().leader == 1  # no follower has all its records
        cluster.cut = {(3, 1), (1, 3)}
        await until(lambda: cluster.placed().leader == 2)
        await fill(cluster, 1)
        give_room(full)
        cluster.cut = set()
        await until(equal(cluster, COUNT + 2, 1, 2, 3))
        assert full.values()[COUNT:] == [b"only here", b"0"]


async def test_a_leader_whose_isr_has_no_other_member_keeps_its_role_and_its_reads(autojump_clock: Clock) -> None:
    cluster = Cluster(configs={"min.insync.replicas": "1"})
    async with cluster.up(1):
        cluster.commit(isr=(1,))
        await fill(cluster, COUNT)
        full = cluster.brokers[1]
        take_room(full)
        for _ in range(10):
            await is_refused(full)
            await pause(1)
        assert (cluster.placed().leader, cluster.reports) == (1, [])
        assert len(full.partition.read(0, 1 << 20, COUNT, at_least_one=True))
        give_room(full)
        await fill(cluster, COUNT)
        await until(lambda: full.partition.unwritable is None)


async def test_a_leader_of_one_replica_has_nothing_to_wait_for(autojump_clock: Clock) -> None:
    cluster = Cluster(replicas=(1,), configs={"min.insync.replicas": "1"})
    async with cluster.up(1):
        full = cluster.brokers[1]
        await fill(cluster, COUNT)
        take_room(full)
        await is_refused(full)
        await until(lambda: full.partition.unwritable is None)
        assert cluster.reports == []


async def test_the_disks_of_all_replicas_that_are_full_at_once_leave_one_leader(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up():
        await fill(cluster, COUNT)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write_on, cluster)
            for broker in cluster.brokers.values():
                take_room(broker, 200 * broker.id)
                await pause(1)
            for _ in range(300):
                await pause(0.1)
                assert cluster.placed().leader != NO_LEADER
                assert cluster.placed().leader in cluster.placed().isr
            for broker in cluster.brokers.values():
                give_room(broker)
            await until(lambda: set(cluster.placed().isr) == {1, 2, 3})
            nursery.cancel_scope.cancel()
        await until(equal(cluster, end_offset(cluster), 1, 2, 3))


async def test_replicas_that_were_reported_lost_at_the_same_time_return_at_once(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up():
        await fill(cluster, COUNT)
        for node_id in (1, 2, 3):
            take_room(cluster.brokers[node_id])
        cluster.commit(isr=(1, 3))
        await is_refused(cluster.brokers[1])
        for node_id in (1, 3):  # as if both had decided before either report was recorded
            cluster.brokers[node_id].partition.note_refused_append()
            cluster.report(node_id, {(cluster.brokers[1].partition.topic_id, 0): LOST})
        await until(lambda: cluster.placed().directory(1) == own(1) and cluster.placed().directory(3) == own(3))


async def test_a_broker_that_restarts_reports_its_directory_although_its_replica_was_lost(
    autojump_clock: Clock,
) -> None:
    cluster = Cluster()
    async with cluster.up():
        await fill(cluster, COUNT)
        full = cluster.brokers[1]
        take_room(full)
        await is_refused(full)
        await until(lambda: cluster.placed().directory(1) == LOST)
        await cluster.kill(1)
        await cluster.start(1)
        await until(lambda: set(cluster.placed().isr) == {1, 2, 3})
        assert cluster.reports == [(1, LOST), (1, own(1))]
