"""Tests of the lifecycle of a broker against a controller that changes its mind."""

from __future__ import annotations

from typing import Any

import msgspec
import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.image import EMPTY, BrokerImage, ClusterImage, Delta, MetadataImage
from pykbroker.quorum.images import Images
from pykbroker.quorum.lifecycle import Lifecycle
from tests.unit.quorum.logs import IDENTITY, INCARNATION
from wire.error_codes import ErrorCode
from wire.messages.broker_heartbeat import BrokerHeartbeatResponse

HEARTBEAT_S = 2.0
EPOCH = 7


def image(offset: int, *, fenced: bool) -> MetadataImage:
    broker = BrokerImage(id=IDENTITY.node_id, incarnation_id=INCARNATION, epoch=EPOCH, fenced=fenced)
    return msgspec.structs.replace(EMPTY, offset=offset, cluster=ClusterImage(brokers={broker.id: broker}))


class FencingController:
    """A controller that unfences the broker at each heartbeat, and at first fences it before the broker learns that."""

    def __init__(self, images: Images, fences: int) -> None:
        self.images, self.fences, self.heartbeats = images, fences, 0

    async def ask(self, request: Any) -> Any:
        self.heartbeats += 1
        before = self.images.committed
        after = image(before.offset + 2, fenced=self.heartbeats <= self.fences)
        self.images.publish(Delta(before, after))
        return BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)


class RefusingController:
    """A controller that does not respond at first, and then has no registration of the broker."""

    def __init__(self) -> None:
        self.heartbeats = 0

    async def ask(self, request: Any) -> Any:
        self.heartbeats += 1
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT if self.heartbeats < 3 else ErrorCode.STALE_BROKER_EPOCH)


async def test_a_broker_that_was_unregistered_says_what_to_do(autojump_clock, caplog):
    controller = RefusingController()
    images = Images(Delta.since_nothing(image(EPOCH, fenced=False)))
    lifecycle = Lifecycle(controller, images, IDENTITY, INCARNATION, HEARTBEAT_S)
    with trio.move_on_after(30):
        await lifecycle.run()
    assert controller.heartbeats > 6
    first, second = (record.getMessage() for record in caplog.records)
    assert first == "a heartbeat of this broker failed: REQUEST_TIMED_OUT"
    assert second.startswith("a heartbeat of this broker failed: STALE_BROKER_EPOCH: it was unregistered, or another")
    assert "restart it, or stop it" in second


async def follow(images: Images) -> None:
    async for _ in images.updates():
        pass


async def test_a_broker_that_is_fenced_again_before_it_learns_of_its_unfencing_sends_another_heartbeat(autojump_clock):
    images = Images(Delta.since_nothing(image(EPOCH, fenced=True)))
    controller = FencingController(images, fences=2)
    lifecycle = Lifecycle(controller, images, IDENTITY, INCARNATION, HEARTBEAT_S)
    lifecycle.broker_epoch = EPOCH
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow, images)
        with trio.fail_after(60):
            await lifecycle.unfence()
        nursery.cancel_scope.cancel()
    assert controller.heartbeats == 3
    assert not images.current.cluster.brokers[IDENTITY.node_id].fenced
