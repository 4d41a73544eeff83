"""Failed log directories: heartbeats report them at once, and a broker that cannot report one stops."""

from __future__ import annotations

import errno
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from pykbroker.broker.directory_states import DirectoryFailures, DirectoryStates
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.errors import ApiError, StopError
from pykbroker.core.metadata.context import METADATA_FEATURE
from pykbroker.core.metadata.image import FeaturesImage, MetadataImage
from pykbroker.core.metadata.record import CORDONED_LEVEL, DIRECTORIES_LEVEL
from pykbroker.quorum.identity import BrokerIdentity
from pykbroker.quorum.lifecycle import Lifecycle
from pykbroker.replica.placing.places import Places
from pykbroker.sim.disk import SimDisk
from pykbroker.sim.volume import Volume
from pykbroker.storage.directory.log_directory import LogDirectory
from tests.unit.replica.brokers import pause
from tests.unit.replica.host import IDS, NOW_MS, PATHS, inline
from wire.error_codes import ErrorCode
from wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

Clock = trio.testing.MockClock
EIO = OSError(errno.EIO, "Input/output error")
TIMEOUT_MS = 30_000


class HeartbeatController:
    """A controller that notes heartbeats, and refuses them while it is not reachable."""

    def __init__(self) -> None:
        self.requests: list[BrokerHeartbeatRequest] = []
        self.is_reachable = True

    async def ask(self, request: Any) -> Any:
        await trio.lowlevel.checkpoint()
        if not self.is_reachable:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT)
        self.requests.append(request)
        return BrokerHeartbeatResponse()


class FailingBroker:
    """The log directories of a broker, and its heartbeats."""

    def __init__(self, level: int = CORDONED_LEVEL, **configs: str) -> None:
        self.controller = HeartbeatController()
        image = MetadataImage(features=FeaturesImage({METADATA_FEATURE: level}))
        config = BrokerConfig.from_mapping({name.replace("_", "."): value for name, value in configs.items()})
        self._images: Any = SimpleNamespace(committed=image, current=image)
        self._config, self._level = config, level

    async def open(self) -> None:
        self.directories = tuple(
            [
                await LogDirectory.open(
                    SimDisk(Volume(), path), off_loop=inline, wall_ms=lambda: NOW_MS, jitter=lambda: 0.5
                )
                for path in PATHS
            ]
        )
        places = Places(self.directories, IDS)
        states = DirectoryStates(places, lambda: self._config, lambda: self._level)
        identity = BrokerIdentity("cluster", 1, IDS)
        self.lifecycle = Lifecycle(self.controller, self._images, identity, b"i" * 16, 2.0, states)
        self.failures = DirectoryFailures(places, self.lifecycle, TIMEOUT_MS)


async def test_a_failed_directory_is_reported_at_once(autojump_clock: Clock) -> None:
    broker = FailingBroker()
    await broker.open()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(broker.lifecycle.run)
        nursery.start_soon(broker.failures.run)
        await pause(5)
        assert [one.offline_log_dirs for one in broker.controller.requests] == [[], []]
        broker.directories[1].fail(EIO)
        began_s = trio.current_time()
        while len(broker.controller.requests) == 2:
            await pause(0.01)
        assert trio.current_time() - began_s < 0.1
        await pause(TIMEOUT_MS)
        assert all(one.offline_log_dirs == [IDS[1]] for one in broker.controller.requests[2:])
        nursery.cancel_scope.cancel()


async def test_a_broker_that_cannot_report_a_failed_directory_stops(autojump_clock: Clock) -> None:
    broker = FailingBroker()
    await broker.open()
    broker.controller.is_reachable = False
    stopped: list[BaseException] = []

    async def watch() -> None:
        try:
            await broker.failures.run()
        except BaseExceptionGroup as group:
            stopped.extend(group.exceptions)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(broker.lifecycle.run)
        nursery.start_soon(watch)
        broker.directories[1].fail(EIO)
        await pause(TIMEOUT_MS / 1000 - 1)
        assert not stopped
        await pause(2)
        (error,) = stopped
        assert isinstance(error, StopError)
        assert "two failed" in str(error)
        assert "log.dir.failure.timeout.ms" in str(error)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("level", "cordoned", "offline"),
    [(DIRECTORIES_LEVEL - 1, None, []), (CORDONED_LEVEL - 1, None, [IDS[1]]), (CORDONED_LEVEL, [IDS[0]], [IDS[1]])],
)
async def test_a_heartbeat_has_what_the_metadata_version_allows(
    autojump_clock: Clock, level: int, cordoned: list[bytes] | None, offline: list[bytes]
) -> None:
    broker = FailingBroker(level, log_dirs=",".join(PATHS), cordoned_log_dirs=PATHS[0])
    await broker.open()
    broker.directories[1].fail(EIO)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(broker.lifecycle.run)
        await pause(3)
        (request,) = broker.controller.requests
        assert (request.cordoned_log_dirs, request.offline_log_dirs) == (cordoned, offline)
        nursery.cancel_scope.cancel()
