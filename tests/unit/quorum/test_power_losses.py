"""Tests of power losses at any point of a controller's run: after a restart it has all committed changes."""

from __future__ import annotations

from typing import Any

import pytest

from pykbroker.core.errors import StartError
from pykbroker.quorum.controller import Controller
from pykbroker.quorum.rules import LogRules
from pykbroker.sim.crash_points import PowerLoss, Recording
from pykbroker.sim.disk import SimDisk
from tests.unit.core.metadata.harness import topic
from tests.unit.quorum.logs import running_controller, started_controller
from wire.messages.create_topics import CreateTopicsRequest
from wire.messages.delete_topics import DeleteTopicsRequest

TINY = LogRules(segment_bytes=900, snapshot_bytes=700, retention_bytes=5000)
"""Limits so small that segments roll and snapshots are taken and deleted during the test."""
RUNS = 3
TOPICS_PER_RUN = 10
STEP = 2
"""The test cuts the power at every second recorded call; the two seeds start at different calls."""

Known = tuple[frozenset[str], frozenset[str]]
"""The topics that must exist after a restart, and the topics that may exist, because their request was not answered."""


async def recorded_run() -> Recording[Known]:
    recording: Recording[Known] = Recording((frozenset(), frozenset()))
    known: frozenset[str] = frozenset()
    for run in range(RUNS):
        async with running_controller(SimDisk(recording.volume), rules=TINY) as controller:
            for number in range(TOPICS_PER_RUN):
                name = f"t{run}-{number}"
                recording.note((known, frozenset({name})))
                await controller.ask(CreateTopicsRequest(topics=[topic(name)], timeout_ms=60_000))
                known |= {name}
                recording.note((known, frozenset()))
                if number % 3 == 2:
                    known = await deleted(controller, recording, known, f"t{run}-{number - 1}")
    return recording


async def deleted(
    controller: Controller, recording: Recording[Known], known: frozenset[str], name: str
) -> frozenset[str]:
    recording.note((known - {name}, frozenset({name})))
    await controller.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=60_000))
    recording.note((known - {name}, frozenset()))
    return known - {name}


async def check(ending: PowerLoss[Known]) -> None:
    must, may = ending.known
    where: Any = f"point {ending.point} ({ending.last_call}), ending {ending.number}"
    try:
        controller = await started_controller(SimDisk(ending.volume), rules=TINY)
    except StartError as error:
        raise AssertionError(f"{where}: {error}") from error
    found = set(controller.images.committed.topics.by_name)
    assert must <= found <= must | may, where
    await controller.close()


@pytest.mark.parametrize("seed", range(2))
async def test_no_committed_change_is_lost_in_a_power_loss(seed: int) -> None:
    recording = await recorded_run()
    last = None
    for ending in recording.endings(1, seed, range(seed, len(recording.calls) + 1, STEP)):
        await check(ending)
        last = ending
    assert last is not None
    assert len(last.known[0]) == RUNS * (TOPICS_PER_RUN - 3)
    names = SimDisk(recording.volume).names("__cluster_metadata-0")
    assert "00000000000000000000.log" not in names
    assert len([name for name in names if name.endswith(".checkpoint")]) >= 1
