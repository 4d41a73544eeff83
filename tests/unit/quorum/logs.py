"""Helpers for tests of the controller: metadata logs in memory and on disk, and controllers that run on them."""

from __future__ import annotations

import lzma
import random
import tarfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import trio

from pykbroker.core.metadata.image import Endpoint
from pykbroker.core.metadata.machine import ControllerMachine
from pykbroker.core.metadata.settings import ControllerSettings
from pykbroker.quorum.controller import Controller
from pykbroker.quorum.driver import Driver
from pykbroker.quorum.identity import BrokerIdentity
from pykbroker.quorum.images import Images
from pykbroker.quorum.journal import METADATA_DIRECTORY
from pykbroker.quorum.lifecycle import Lifecycle
from pykbroker.quorum.metadata_log import open_metadata_log
from pykbroker.quorum.quorum_state import QuorumState
from pykbroker.quorum.rules import LogRules
from pykbroker.quorum.snapshots import Snapshots
from pykbroker.quorum.snapshotter import Snapshotter
from pykbroker.quorum.start import start_controller
from pykbroker.storage.log.log import Log
from pykbroker.world.disk import Disk
from pykbroker.world.system_disk import SystemDisk
from pykbroker.world.turns import Turns
from tests.unit.core.metadata.harness import CLUSTER, GOLDEN, NOW_MS, Configs, ControllerHarness
from wire.records.batch import Batch

T = TypeVar("T")
RULES = LogRules()
IDENTITY = BrokerIdentity(CLUSTER, 1, (b"d" * 16,))
INCARNATION = b"i" * 16
ENDPOINT = Endpoint("PLAINTEXT", "127.0.0.1", 9092)


class InlineOffLoop:
    """An `OffLoop` that runs every function at once on the event loop."""

    async def __call__(self, function: Callable[..., T], *args: object) -> T:
        return function(*args)


class MemoryJournal:
    """A metadata log in memory that counts its flushes. A flush waits until `gate` is set, and appends or flushes may
    fail.
    """

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.epochs: list[tuple[int, int]] = []
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.flushes = 0
        self.gate = trio.Event()
        self.gate.set()
        self.append_error: OSError | None = None
        self.flush_error: OSError | None = None
        self.closed = False

    def append_as_leader(self, data: Any, leader_epoch: int, /) -> None:
        if self.append_error:
            raise self.append_error
        batch = Batch.read(data)
        self.batches.append(batch)
        self.log_end_offset += batch.count

    def become_leader(self, leader_epoch: int, /) -> None:
        self.epochs.append((leader_epoch, self.log_end_offset))

    async def read_patiently(self, offset: int, bytes_max: int, upper_offset: int, /, *, at_least_one: bool) -> Any:
        raise NotImplementedError

    async def flush(self) -> None:
        self.flushes += 1
        await self.gate.wait()
        if self.flush_error:
            raise self.flush_error

    @property
    def size_bytes(self) -> int:
        return sum(batch.size for batch in self.batches)

    def delete_records(self, offset: int, /) -> int:
        raise NotImplementedError

    async def retain(self, now_ms: int, high_watermark: int, /) -> None:
        raise NotImplementedError

    def take_deleted(self) -> list[str]:
        return []

    async def close(self) -> None:
        self.closed = True


def in_memory(journal: MemoryJournal, disk: Disk) -> Controller:
    """Return the controller of a cluster of one broker with an in-memory log; the quorum state is on `disk`."""
    image = ControllerHarness().open(1).freeze().image
    machine = ControllerMachine(ControllerSettings(1, CLUSTER), Configs(), random.Random(3), image)
    journal.log_end_offset = machine.next_offset
    disk.make_directory(METADATA_DIRECTORY)
    driver = Driver(journal, machine, disk, QuorumState(leader_id=1, leader_epoch=1))
    images = Images(driver.freeze())
    snapshotter = Snapshotter(
        driver, images, Snapshots(disk, InlineOffLoop()), LogRules(), InlineOffLoop(), lambda: NOW_MS
    )
    return Controller(driver, images, lambda: NOW_MS, snapshotter, Turns(lambda: 0))


def disk_at(path: Path) -> SystemDisk:
    """Return a log directory whose files are never fsynced."""
    return SystemDisk(str(path), InlineOffLoop(), durable=False)


async def metadata_log(disk: Disk, rules: LogRules = RULES) -> Log:
    """Open the metadata log in a directory."""
    return await open_metadata_log(disk, InlineOffLoop(), rules)


async def started_controller(
    disk: Disk,
    cluster_id: str = CLUSTER,
    seed: int = 3,
    rules: LogRules = RULES,
    wall_ms: Callable[[], int] = lambda: NOW_MS,
    tick_ns: int = 0,
    **settings: Any,
) -> Controller:
    """Start the controller of a directory; it answers requests once `run` is called.

    The clock that measures time slices of the event loop advances by `tick_ns` at each reading.
    """
    return await start_controller(
        await metadata_log(disk, rules),
        disk,
        ControllerSettings(1, cluster_id, **settings),
        Configs(),
        random.Random(seed),
        wall_ms,
        InlineOffLoop(),
        rules,
        Turns(count(0, tick_ns).__next__),
    )


@asynccontextmanager
async def running_controller(disk: Disk, **options: Any) -> AsyncIterator[Controller]:
    """Run a controller with one registered and unfenced broker during the block."""
    controller = await started_controller(disk, **options)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(controller.run)
        nursery.start_soon(controller.snapshotter.run)
        nursery.start_soon(follow, controller)
        lifecycle = Lifecycle(controller, controller.images, IDENTITY, INCARNATION)
        await lifecycle.register([ENDPOINT], None, clean=False)
        await lifecycle.unfence()
        yield controller
        nursery.cancel_scope.cancel()
    await controller.close()


async def follow(controller: Controller) -> None:
    """Subscribe to the images and apply each one without further work."""
    async for _ in controller.images.updates():
        pass


def golden_directory(archive: str, root: str, into: Path) -> SystemDisk:
    """Extract a log directory that Apache Kafka wrote, and return it."""
    with lzma.open(GOLDEN / f"logdir-{archive}.tar.xz") as unpacked, tarfile.open(fileobj=unpacked) as files:
        files.extractall(into, filter="data")
    return disk_at(into / root)
