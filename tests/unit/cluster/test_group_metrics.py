"""The lags of a group in partitions of which its coordinator has no replica."""

from __future__ import annotations

from pathlib import Path

from tests.unit.apis.conftest import Client, batch
from tests.unit.cluster.nodes import cluster, eventually
from tests.unit.console.test_topics import commit
from wire.messages.find_coordinator import FindCoordinatorRequest


async def group_of(client: Client, node_id: int) -> str:
    """Return a group whose coordinator is this node, once the node serves it."""
    keys = [f"g{number}" for number in range(50)]

    async def look() -> str:
        found = (await client.call(FindCoordinatorRequest(coordinator_keys=keys), 6)).coordinators
        return next((one.key for one in found if (one.error_code, one.node_id) == (0, node_id)), "")

    return await eventually(look)


async def test_a_coordinator_asks_the_leaders_of_other_brokers_for_the_ends_of_their_logs(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, 2) as running:
        one = running.clients[1]
        await one.create("t", 4)
        group = await group_of(one, 1)
        replicas = running.brokers[1].serving.observer.parts.replicas
        leaders = [replicas.metadata.topics.partition("t", index).leader for index in range(4)]
        assert sorted(leaders) == [1, 1, 2, 2]
        for index, leader in enumerate(leaders):
            await running.clients[leader].produce("t", batch(b"1", b"2", b"3"), partition=index)
        await commit(one, group, *(("t", index, 1) for index in range(4)))

        async def lags() -> list[int | None]:
            (found,) = (await running.brokers[1].serving.observer.groups()).groups
            return [offset.lag for offset in found.offsets]

        assert await lags() == [2] * 4
        await running.stop(2)
        assert await lags() == [2 if leader == 1 else None for leader in leaders]
