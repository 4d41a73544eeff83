"""The channel of a broker to the active controller: a controller that does not respond is looked for again."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.client.link_settings import LinkSettings
from pykbroker.core.address import Address
from pykbroker.core.errors import ApiError
from pykbroker.quorum.controller_channel import RETRY_S, ControllerChannel
from pykbroker.quorum.quorum_leader import QuorumLeader
from pykbroker.sim.scripted.connection import NoAnswer
from tests.unit.client.conftest import Client, no_jitter
from tests.unit.replica.brokers import pause
from wire.api import ApiKey
from wire.apis import APIS
from wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from wire.messages.metadata import MetadataRequest

Clock = trio.testing.MockClock
TIMEOUT_S = 3.0
ONE, TWO = Address("node1", 9092), Address("node2", 9092)


class Controllers:
    """The nodes 1 and 2 as controllers, of which node 1 is active. A node answers `after_s[node]` later."""

    def __init__(self, client: Client) -> None:
        self.after_s = {1: 0.0, 2: 0.0}
        self.asked: list[tuple[float, int]] = []
        self.leader = QuorumLeader((ONE, TWO))
        self.leader.found(1, 1, ONE)
        for node in client.cluster.nodes.values():
            node.versions[ApiKey.ALTER_PARTITION] = APIS[ApiKey.ALTER_PARTITION].accepted
            node.scripts.append(self.answer)
        settings = LinkSettings(setup_timeout_ms=1000, setup_timeout_ms_max=2000)
        self.channel = ControllerChannel(client.net, self.leader, "test", no_jitter, settings, TIMEOUT_S)

    async def answer(self, node: Any, header: Any, request: Any) -> Any:
        if header.key != ApiKey.ALTER_PARTITION:
            return None
        self.asked.append((trio.current_time(), node.node_id))
        await pause(self.after_s[node.node_id])
        return AlterPartitionResponse()

    async def follow(self, found: Address) -> None:
        """Name this controller whenever the broker has lost the one that it knew."""
        while True:
            if self.leader.address is None:
                self.leader.found(1, 1, found)
            await pause(0.01)


@pytest.fixture
def controllers(client: Client) -> Controllers:
    return Controllers(client)


async def test_a_response_within_controller_socket_timeout_ms_is_returned(
    autojump_clock: Clock, controllers: Controllers
) -> None:
    controllers.after_s[1] = TIMEOUT_S - 0.01
    assert await controllers.channel.ask(AlterPartitionRequest()) == AlterPartitionResponse()
    assert [node for _, node in controllers.asked] == [1]
    assert controllers.leader.address == ONE


async def test_a_silent_controller_is_left_after_controller_socket_timeout_ms(
    autojump_clock: Clock, controllers: Controllers, nursery: trio.Nursery
) -> None:
    controllers.after_s[1] = TIMEOUT_S + 0.01
    nursery.start_soon(controllers.follow, TWO)
    assert await controllers.channel.ask(AlterPartitionRequest()) == AlterPartitionResponse()
    (first, one), (second, two) = controllers.asked
    assert (one, two) == (1, 2)
    assert second - first == pytest.approx(TIMEOUT_S + RETRY_S)


async def test_all_requests_to_a_silent_controller_are_sent_again(
    autojump_clock: Clock, controllers: Controllers, nursery: trio.Nursery
) -> None:
    controllers.after_s[1] = 1000
    nursery.start_soon(controllers.follow, TWO)
    answers = []

    async def ask(delay_s: float) -> None:
        await trio.sleep(delay_s)
        answers.append(await controllers.channel.ask(AlterPartitionRequest()))

    async with trio.open_nursery() as asking:
        asking.start_soon(ask, 0)
        asking.start_soon(ask, TIMEOUT_S / 2)
    assert answers == [AlterPartitionResponse()] * 2
    assert [node for _, node in controllers.asked] == [1, 2, 2]


async def test_a_controller_that_sends_no_api_versions_is_left_after_controller_socket_timeout_ms(
    autojump_clock: Clock, client: Client, controllers: Controllers, nursery: trio.Nursery
) -> None:
    async def be_silent(node: Any, header: Any, request: Any) -> Any:
        raise NoAnswer

    client.cluster.nodes[1].scripts.insert(0, be_silent)
    nursery.start_soon(controllers.follow, TWO)
    begun = trio.current_time()
    await controllers.channel.ask(AlterPartitionRequest())
    ((asked_at, node_id),) = controllers.asked
    assert node_id == 2
    assert asked_at - begun == pytest.approx(TIMEOUT_S + RETRY_S)


async def test_a_controller_that_accepts_no_connection_is_left_after_the_setup_timeout(
    autojump_clock: Clock, client: Client, controllers: Controllers, nursery: trio.Nursery
) -> None:
    client.net.black_holes.add("node1")
    nursery.start_soon(controllers.follow, ONE)
    with trio.move_on_after(10):
        await controllers.channel.ask(MetadataRequest())
    times = [time for time, _ in client.net.attempts]
    lasted = [after - before for before, after in pairwise(times)]
    assert lasted[:2] == [pytest.approx(1 + RETRY_S, abs=0.02), pytest.approx(2 + RETRY_S, abs=0.02)]
    assert lasted[2] == pytest.approx(2 + 0.2, abs=0.02)  # the reconnect backoff has grown


@pytest.mark.parametrize("limit_s", [TIMEOUT_S / 2, TIMEOUT_S * 2])
async def test_a_request_that_times_out_has_ended_its_connection(
    autojump_clock: Clock, client: Client, controllers: Controllers, nursery: trio.Nursery, limit_s: float
) -> None:
    """A heartbeat has a shorter limit than its channel, and a forwarded request a longer one."""
    controllers.after_s[1] = 1000
    nursery.start_soon(controllers.follow, ONE)
    begun = trio.current_time()
    with pytest.raises(ApiError, match="the controller did not respond in time"):
        await controllers.channel.ask(AlterPartitionRequest(), s_max=limit_s)
    assert trio.current_time() - begun == pytest.approx(limit_s)
    assert [pump.is_closed for pump in client.net.pumps] == [True] * len(controllers.asked)


async def test_the_limit_of_a_request_includes_the_wait_for_the_leader(
    autojump_clock: Clock, controllers: Controllers, nursery: trio.Nursery
) -> None:
    controllers.after_s[1] = 1000
    controllers.leader.lost(ONE)

    async def find() -> None:
        await trio.sleep(TIMEOUT_S / 2)
        controllers.leader.found(1, 1, ONE)

    nursery.start_soon(find)
    begun = trio.current_time()
    with pytest.raises(ApiError, match="the controller did not respond in time"):
        await controllers.channel.ask(AlterPartitionRequest(), s_max=TIMEOUT_S)
    assert trio.current_time() - begun == pytest.approx(TIMEOUT_S)
    assert len(controllers.asked) == 1


async def test_a_request_whose_caller_is_gone_keeps_its_connection(
    autojump_clock: Clock, client: Client, controllers: Controllers
) -> None:
    controllers.after_s[1] = TIMEOUT_S / 2
    with trio.move_on_after(TIMEOUT_S / 4):
        await controllers.channel.ask(AlterPartitionRequest(), s_max=TIMEOUT_S)
    await controllers.channel.ask(AlterPartitionRequest(), s_max=TIMEOUT_S)
    assert len(client.net.pumps) == 1


async def test_the_time_limit_of_a_request_includes_the_search_for_the_controller(
    autojump_clock: Clock, controllers: Controllers
) -> None:
    controllers.leader.lost(ONE)
    begun = trio.current_time()
    with pytest.raises(ApiError, match="the controller did not respond in time"):
        await controllers.channel.ask(AlterPartitionRequest(), s_max=TIMEOUT_S)
    assert trio.current_time() - begun == TIMEOUT_S
    assert controllers.asked == []


async def test_a_request_of_an_earlier_epoch_is_sent_again_once_a_newer_epoch_is_known(
    autojump_clock: Clock, controllers: Controllers
) -> None:
    """The machine of the controller lost power and started again: nothing ends the old connection."""
    controllers.after_s[1] = 1000
    answers = []

    async def ask() -> None:
        answers.append(await controllers.channel.ask(AlterPartitionRequest()))

    async with trio.open_nursery() as asking:
        asking.start_soon(ask)
        await pause(TIMEOUT_S / 2)
        controllers.after_s[1] = 0
        controllers.leader.found(1, 1, ONE)
        await pause(2 * RETRY_S)
        assert (answers, len(controllers.asked)) == ([], 1)
        controllers.leader.found(1, 2, ONE)
    assert answers == [AlterPartitionResponse()]
    assert [node for _, node in controllers.asked] == [1, 1]
    assert controllers.leader.address == ONE
    assert trio.current_time() < TIMEOUT_S


async def test_a_connection_of_an_earlier_epoch_gets_no_further_request(
    autojump_clock: Clock, client: Client, controllers: Controllers
) -> None:
    await controllers.channel.ask(AlterPartitionRequest())
    await controllers.channel.ask(AlterPartitionRequest())
    assert len(client.net.attempts) == 1
    controllers.leader.found(1, 2, ONE)
    await controllers.channel.ask(AlterPartitionRequest())
    assert len(client.net.attempts) == 2
