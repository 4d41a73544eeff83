"""Random cuts, kills and elections between brokers: no acknowledged record is lost, and the logs become equal."""

from __future__ import annotations

from random import Random

import pytest
import trio
import trio.testing

from pykbroker.core.errors import ApiError
from pykbroker.core.replication.following import CutLog
from tests.unit.replica.brokers import Broker, Cluster, pause
from tests.unit.replica.test_replication import equal, until

Clock = trio.testing.MockClock
SEEDS = 12
ROUNDS = 25


class Faults:
    """A cluster under random faults, with a client that remembers what was acknowledged, by offset."""

    def __init__(self, seed: int) -> None:
        self.dice, self.cluster = Random(seed), Cluster(configs={"internal.segment.bytes": "2000"})
        self.acknowledged: dict[int, bytes] = {}
        self.number = self.kills = self.elections = 0

    async def run(self) -> None:
        async with self.cluster.up(), trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(self._produce)
            for _ in range(ROUNDS):
                await self.dice.choice((self._cut, self._cut, self._kill, self._elect, self._inform_late))()
                await pause(self.dice.uniform(0.1, 8))
            nursery.cancel_scope.cancel()
            await self._heal()
            self._check()

    async def _produce(self) -> None:
        while True:
            leader = self.cluster.running.get(self.dice.choice((1, 2, 3)))
            if leader is not None and leader.has_partition and leader.partition.is_leader:
                self.number += 1
                value = b"%d" % self.number
                with trio.move_on_after(5):
                    await self._append(leader, value)
            await pause(self.dice.uniform(0.01, 0.3))

    async def _append(self, leader: Broker, value: bytes) -> None:
        try:
            offset = await leader.produce(value)
        except ApiError:
            return
        if self.cluster.running.get(leader.id) is leader:
            assert self.acknowledged.setdefault(offset, value) == value

    async def _cut(self) -> None:
        cluster = self.cluster
        cluster.cut = {
            (one, other) for one in (1, 2, 3) for other in (1, 2, 3) if one != other and self.dice.random() < 0.3
        }

    async def _inform_late(self) -> None:
        self.cluster.uninformed = {self.dice.choice((1, 2, 3))}
        self.cluster.inform()

    async def _kill(self) -> None:
        """Kill a broker. The controller fences it, unless it is the last of the ISR, and it registers again later."""
        cluster, node_id = self.cluster, self.dice.choice((1, 2, 3))
        self.kills += 1
        await cluster.kill(node_id)
        isr = tuple(each for each in cluster.placed().isr if each != node_id)
        epoch = cluster.image.cluster.brokers[node_id].epoch
        if isr:
            cluster.set_broker(node_id, fenced=True)
            changes = {"leader": isr[0]} if cluster.placed().leader == node_id else {}
            cluster.commit(isr=isr, **changes)
        await pause(self.dice.uniform(0, 5))
        cluster.set_broker(node_id, fenced=False, epoch=epoch + 1)
        await cluster.start(node_id)

    async def _elect(self) -> None:
        self.elections += 1
        self.cluster.commit(leader=self.dice.choice(self.cluster.placed().isr))

    async def _heal(self) -> None:
        self.cluster.cut, self.cluster.uninformed = set(), set()
        self.cluster.inform()
        await until(lambda: sorted(self.cluster.placed().isr) == [1, 2, 3])
        await pause(2)
        leader = self.cluster.brokers[self.cluster.placed().leader]
        count = await leader.produce(b"last") + 1
        await until(equal(self.cluster, count, 1, 2, 3))

    def _check(self) -> None:
        values = self.cluster.brokers[1].values()
        lost = {offset: value for offset, value in self.acknowledged.items() if values[offset] != value}
        assert lost == {}


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_no_acknowledged_record_is_lost_under_random_faults(autojump_clock: Clock, seed: int) -> None:
    faults = Faults(seed)
    await faults.run()
    assert faults.kills + faults.elections > 0
    assert faults.acknowledged


async def test_a_leader_that_comes_back_soon_is_fetched_from_soon(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up():
        await cluster.brokers[1].produce(b"first")
        await cluster.kill(1)
        await pause(0.1)
        await cluster.start(1)
        await until(lambda: cluster.brokers[1].has_partition)
        began = trio.current_time()
        await cluster.brokers[1].produce(b"second")
        assert trio.current_time() - began < 0.5


async def test_the_end_of_its_fetcher_does_not_interrupt_a_truncation(autojump_clock: Clock) -> None:
    cluster = Cluster()
    async with cluster.up(1):
        broker = cluster.brokers[1]
        await until(lambda: broker.has_partition)
        for value in (b"first", b"second"):
            await broker.produce(value, acks_all=False)
        cluster.commit(leader=2)
        await until(lambda: broker.fetchers.followed() != [])
        log, followed = broker.partition.log, broker.fetchers.followed()[0]
        assert log is not None
        async with trio.open_nursery() as nursery, log.shrinker.lock:
            nursery.start_soon(followed.cut, CutLog(1))
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert log.log_end_offset == 1
        await cluster.kill(1)
        assert await broker.directory.close(high_watermarks={}) is None
        await cluster.start(1)
        await until(lambda: broker.has_partition)
        assert broker.partition.repair is None
        assert broker.values() == [b"first"]
