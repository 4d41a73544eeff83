"""Repairs of replicas: a damaged or missing log leaves the ISR, and is fetched anew before its replica joins again."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from pykbroker.core.errors import ApiError
from pykbroker.core.ids import LOST
from pykbroker.core.metadata.context import METADATA_FEATURE
from pykbroker.core.metadata.image import FeaturesImage
from pykbroker.core.metadata.record import DIRECTORIES_LEVEL
from pykbroker.core.replication.repair import RepairPhase
from pykbroker.replica.care import repairs
from pykbroker.sim.volume import Inode
from pykbroker.storage.directory.damaged_logs import ANEW, DAMAGED
from tests.unit.apis.calling import context
from tests.unit.replica.brokers import TOPIC_ID, Broker, Cluster, pause, responded
from tests.unit.replica.test_replication import equal, until
from wire.error_codes import ErrorCode
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState

Clock = trio.testing.MockClock
ASIDE = f"t-0.{TOPIC_ID.hex()}-stray"
COUNT = 20


def own(node_id: int) -> bytes:
    """Return the id of a broker's log directory."""
    return bytes([node_id]) * 16


async def fill(cluster: Cluster, count: int = COUNT) -> None:
    leader = cluster.brokers[cluster.placed().leader]
    await until(lambda: leader.has_partition and leader.partition.is_leader)
    for number in range(count):
        await leader.produce(b"%d" % number)


def flip(broker: Broker) -> None:
    """Change a bit in the first record of a broker's log."""
    found = broker.volume.find(f"t-0/{0:020d}.log")
    assert isinstance(found, Inode)
    broker.volume.flip(found.number, 70, 0)


async def unpaced(_: int) -> None:
    await trio.lowlevel.checkpoint()


async def damage(broker: Broker) -> None:
    """Damage a broker's log, and let the scrub find it."""
    flip(broker)
    with pytest.raises(ApiError):
        await broker.partition.scrub(unpaced)
    assert not broker.partition.is_online


def names(broker: Broker) -> list[str]:
    """Return the directories of the partition, without those that are about to be removed."""
    found = broker.volume.find_directory("").entries
    return sorted(name for name in found if name.startswith("t-0") and not name.endswith("-delete"))


def repaired(cluster: Cluster, *node_ids: int) -> bool:
    placed = cluster.placed()
    return set(placed.isr) == {1, 2, 3} and all(
        placed.directory(each) == own(each)
        and cluster.brokers[each].has_partition
        and cluster.brokers[each].partition.repair is None
        for each in node_ids
    )


@pytest.mark.parametrize("node_id", [1, 2])
async def test_a_damaged_replica_leaves_the_isr_and_is_fetched_anew(autojump_clock: Clock, node_id: int) -> None:
    """Broker 1 is the leader at first, and broker 2 a follower."""
    cluster = Cluster()
    async with cluster.up():
        await fill(cluster)
        broker = cluster.brokers[node_id]
        cluster.latency_s = 0.2
        await damage(broker)
        await until(lambda: node_id not in cluster.placed().isr)
        assert cluster.placed().leader == (2 if node_id == 1 else 1)
        await until(lambda: ASIDE in names(broker))
        assert cluster.reports[0] == (node_id, LOST)
        assert DAMAGED in broker.volume.find_directory(ASIDE).entries
        assert ANEW in broker.volume.find_directory("t-0").entries
        await until(lambda: node_id in cluster.placed().isr)
        assert ASIDE in names(broker)
        cluster.latency_s = 0.001
        await until(lambda: repaired(cluster, node_id))
        assert cluster.reports == [(node_id, LOST), (node_id, own(node_id))]
        await until(equal(cluster, COUNT, 1, 2, 3))
        assert ASIDE not in names(broker)
        assert ANEW not in broker.volume.find_directory("t-0").entries
        await fill(cluster, 3)
        await until(equal(cluster, COUNT + 3, 1, 2, 3))


async def test_a_damaged_replica_of_an_empty_isr_keeps_its_files(autojump_clock: Clock) -> None:
    cluster = Cluster(configs={"min.insync.replicas": "1"})
    async with cluster.up(1):
        cluster.commit(isr=(1,))
        broker = cluster.brokers[1]
        await fill(cluster)
        before = broker.content()
        await damage(broker)
        damaged = broker.content()
        await until(lambda: cluster.placed().leader == -1)
        await pause(60)
        assert names(broker) == ["t-0"]
        assert broker.content() == damaged != before
        assert cluster.placed().isr == (1,)


async def test_the_damaged_log_of_the_last_replica_is_kept_after_an_unclean_election(autojump_clock: Clock) -> None:
    cluster = Cluster(configs={"min.insync.replicas": "1"})
    async with cluster.up(1):
        cluster.commit(isr=(1,))
        broker = cluster.brokers[1]
        await fill(cluster)
        await damage(broker)
        await until(lambda: cluster.placed().leader == -1)
        await pause(5)
        await cluster.start(2)
        cluster.commit(isr=(2,), leader=2)
        await until(lambda: set(cluster.placed().isr) == {1, 2} and broker.partition.repair is None)
        assert names(broker) == ["t-0", ASIDE]
        assert f"{0:020d}.log" in broker.volume.find_directory(ASIDE).entries
        assert DAMAGED not in broker.volume.find_directory(ASIDE).entries
        assert broker.values() == []


@pytest.mark.parametrize("node_id", [1, 2])
async def test_a_damaged_log_stays_offline_until_the_controller_can_be_told(
    autojump_clock: Clock, caplog: pytest.LogCaptureFixture, node_id: int
) -> None:
    cluster = Cluster()
    cluster.publish(features=FeaturesImage({METADATA_FEATURE: DIRECTORIES_LEVEL - 1}))
    async with cluster.up():
        await fill(cluster)
        broker = cluster.brokers[node_id]
        caplog.clear()
        await damage(broker)
        await pause(60)
        assert (names(broker), cluster.reports, cluster.placed().leader) == (["t-0"], [], 1)
        of_repairs = [record.getMessage() for record in caplog.records if record.name == repairs.__name__]
        assert len(of_repairs) == 1
        assert of_repairs[0].startswith("t-0: its log cannot be served")
        cluster.publish(features=FeaturesImage({METADATA_FEATURE: DIRECTORIES_LEVEL}))
        await until(lambda: repaired(cluster, node_id))
        await until(equal(cluster, COUNT, 1, 2, 3))


async def test_the_only_replica_of_a_partition_is_never_replaced(autojump_clock: Clock) -> None:
    cluster = Cluster(replicas=(1,), configs={"min.insync.replicas": "1"})
    async with cluster.up(1):
        await fill(cluster)
        broker = cluster.brokers[1]
        await damage(broker)
        damaged = broker.content()
        await pause(60)
        assert (names(broker), broker.content(), cluster.reports) == (["t-0"], damaged, [])
        assert cluster.placed().leader == 1


async def test_a_log_whose_files_are_gone_is_fetched_anew(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up():
        await fill(cluster)
        broker = cluster.brokers[3]
        await broker.directory.checkpoints.write_high_watermarks(broker.replicas.high_watermarks(broker.directory))
        await cluster.kill(3)
        del broker.volume.find_directory("").entries["t-0"]
        await cluster.start(3)
        await until(lambda: (3, LOST) in cluster.reports)
        await until(lambda: repaired(cluster, 3))
        await until(equal(cluster, COUNT, 1, 2, 3))
        assert cluster.reports == [(3, LOST), (3, own(3))]


async def test_a_log_that_vanishes_right_after_its_first_records_never_leads_without_them(
    autojump_clock: Clock,
) -> None:
    """No checkpoint has a high watermark yet, and the replica is the last one of the ISR."""
    cluster = Cluster()
    async with cluster.up():
        await fill(cluster)
        for node_id in (2, 3):
            await cluster.kill(node_id)
        cluster.commit(isr=(1,))
        broker = cluster.brokers[1]
        await cluster.kill(1)
        for entries in (broker.volume.root.entries, broker.volume.root.durable):
            entries.pop("t-0")
        await cluster.start(1)
        await until(lambda: (1, LOST) in cluster.reports)
        assert cluster.placed().leader == -1
        await cluster.start(2)
        await cluster.start(3)
        cluster.commit(isr=(2,), leader=2)
        await until(lambda: repaired(cluster, 1))
        await until(equal(cluster, COUNT, 1, 2, 3))


async def test_a_log_that_is_found_damaged_at_start_is_fetched_anew(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up():
        await fill(cluster)
        broker = cluster.brokers[3]
        assert broker.partition.log is not None
        await broker.partition.log.flush()
        await broker.directory.checkpoints.write()
        await cluster.kill(3)
        found = broker.volume.find(f"t-0/{0:020d}.log")
        assert isinstance(found, Inode)
        broker.volume.truncate(found.number, 100)
        await cluster.start(3)
        await until(lambda: repaired(cluster, 3))
        await until(equal(cluster, COUNT, 1, 2, 3))
        assert cluster.reports == [(3, LOST), (3, own(3))]


async def test_a_repair_goes_on_after_a_kill(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up():
        await fill(cluster)
        broker = cluster.brokers[2]
        await damage(broker)
        cluster.cut = {(2, 1), (1, 2)}
        await until(lambda: ASIDE in names(broker))
        await until(lambda: broker.partition.repair is not None and broker.partition.log is not None)
        await cluster.kill(2)
        await cluster.start(2)
        await pause(5)
        repair = broker.partition.repair
        assert repair is not None
        assert repair.phase is RepairPhase.FETCHING
        assert cluster.reports == [(2, LOST), (2, own(2))]
        assert 2 not in cluster.placed().isr
        assert ASIDE in names(broker)
        cluster.cut = set()
        await until(lambda: repaired(cluster, 2))
        await until(equal(cluster, COUNT, 1, 2, 3))
        assert names(broker) == ["t-0"]


@pytest.mark.parametrize("node_id", [1, 2])
async def test_a_replica_that_is_fetched_anew_can_be_elected_as_soon_as_it_is_in_the_isr(
    autojump_clock: Clock, node_id: int
) -> None:
    """The leader may fail right then. Broker 1 is the leader at first, and broker 2 a follower."""
    cluster = Cluster()
    async with cluster.up():
        await fill(cluster)
        await damage(cluster.brokers[node_id])
        await until(lambda: node_id not in cluster.placed().isr)
        await until(lambda: node_id in cluster.placed().isr)
        assert cluster.placed().directory(node_id) == own(node_id)
        cluster.commit(isr=(node_id,), leader=node_id)
        await until(lambda: cluster.brokers[node_id].partition.is_leader)
        assert len(cluster.brokers[node_id].values()) == COUNT
        await until(lambda: repaired(cluster, node_id))


async def test_a_late_fetch_of_a_damaged_replica_is_refused(autojump_clock: Clock) -> None:
    """The new replica is empty when its leader gets the fetch, and its directory is reported."""
    cluster = Cluster()
    async with cluster.up():
        await fill(cluster)
        broker, leader = cluster.brokers[2], cluster.brokers[1]
        late = FetchRequest(
            replica_state=ReplicaState(2, cluster.image.cluster.brokers[2].epoch),
            topics=[
                FetchTopic(
                    topic_id=TOPIC_ID,
                    partitions=[FetchPartition(current_leader_epoch=broker.partition.leader_epoch, fetch_offset=COUNT)],
                )
            ],
        )
        cluster.cut = {(1, 2)}
        await damage(broker)
        await until(lambda: broker.partition.log is not None and cluster.placed().directory(2) == own(2))
        answer = await responded(leader.handlers[FetchRequest](context(17), late))
        assert answer.responses[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
        await pause(5)
        assert 2 not in cluster.placed().isr
        cluster.cut = set()
        await until(lambda: repaired(cluster, 2))
        await until(equal(cluster, COUNT, 1, 2, 3))


async def test_under_kafkas_controller_a_replica_that_joins_the_isr_too_early_is_reported_once_it_is_complete(
    autojump_clock: Clock,
) -> None:
    """A late fetch of the damaged replica is processed after the new replica has begun, in the same leader epoch."""
    cluster = Cluster()
    cluster.is_under_kafka = True
    async with cluster.up():
        await fill(cluster)
        broker, leader = cluster.brokers[2], cluster.brokers[1]
        await damage(broker)
        await until(lambda: cluster.placed().directory(2) == LOST)
        cluster.cut = {(1, 2)}
        await until(lambda: broker.partition.log is not None)
        leader.keeper.note_fetch(leader.partition, 2, cluster.image.cluster.brokers[2].epoch, COUNT, 0)
        await until(lambda: 2 in cluster.placed().isr)
        await pause(5)
        assert 2 in cluster.placed().isr
        assert broker.values() == []
        assert cluster.placed().directory(2) == LOST
        cluster.cut = set()
        await until(lambda: repaired(cluster, 2))
        await until(equal(cluster, COUNT, 1, 2, 3))


async def test_a_log_that_is_damaged_again_is_fetched_once_more(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up():
        await fill(cluster)
        for _ in range(3):
            await damage(cluster.brokers[3])
            await until(lambda: repaired(cluster, 3))
        await until(equal(cluster, COUNT, 1, 2, 3))
        await until(lambda: names(cluster.brokers[3]) == ["t-0"])
