"""Tests of the controller on its timers and on notices: what they write is committed, although nobody waits for it."""

from __future__ import annotations

from pathlib import Path

import trio.testing

from pykbroker.core.metadata.features import SUPPORTED
from pykbroker.core.metadata.image import BrokerImage
from pykbroker.core.metadata.notices import BrokerGone
from pykbroker.quorum.controller import Controller
from tests.unit.core.metadata.harness import CLUSTER
from tests.unit.quorum.logs import disk_at, running_controller
from wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from wire.messages.broker_registration import BrokerRegistrationRequest, Feature


async def joined(controller: Controller) -> int:
    """Register and unfence broker 2 and return its epoch."""
    registration = BrokerRegistrationRequest(
        broker_id=2,
        cluster_id=CLUSTER,
        incarnation_id=b"i" * 16,
        features=[Feature(name, least, most) for name, (least, most) in SUPPORTED.items()],
        rack=None,
        log_dirs=[b"e" * 16],
    )
    epoch = (await controller.ask(registration)).broker_epoch
    beat = BrokerHeartbeatRequest(broker_id=2, broker_epoch=epoch, current_metadata_offset=epoch)
    assert not (await controller.ask(beat)).is_fenced
    return epoch


def broker_2(controller: Controller) -> BrokerImage:
    return controller.images.current.cluster.brokers[2]


async def test_a_silent_broker_is_fenced_in_a_committed_image(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with running_controller(disk_at(tmp_path)) as controller:
        await joined(controller)
        await trio.sleep(8)
        assert not broker_2(controller).fenced
        await trio.sleep(4)
        assert broker_2(controller).fenced


async def test_a_broker_whose_connection_is_refused_is_fenced_at_once(tmp_path: Path) -> None:
    async with running_controller(disk_at(tmp_path)) as controller:
        controller.note_gone(BrokerGone(2, await joined(controller), refused=True))
        await trio.testing.wait_all_tasks_blocked()
        assert broker_2(controller).fenced
