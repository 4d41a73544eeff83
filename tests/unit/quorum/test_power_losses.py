"""The power goes at any point of a controller's life: it starts again, and knows all that it has answered."""

from __future__ import annotations

from typing import Any

import pytest

from pykbroker.core.errors import StartError
from pykbroker.quorum.controller import Controller
from pykbroker.quorum.rules import LogRules
from pykbroker.sim.crash_points import PowerLoss, Recording
from pykbroker.sim.disk import SimDisk
from tests.unit.core.metadata.harness import topic
from tests.unit.quorum.logs import living, started
from wire.messages.create_topics import CreateTopicsRequest
from wire.messages.delete_topics import DeleteTopicsRequest

TINY = LogRules(segment_bytes=900, snapshot_bytes=700, retention_bytes=5000)
"""So that segments roll, snapshots are taken, and both are let go, all the time."""
LIVES = 3
TOPICS_OF_A_LIFE = 10
STEP = 2
"""Every so-manieth point is tried; other seeds begin elsewhere."""

Known = tuple[frozenset[str], frozenset[str]]
"""The topics that must be there, and those that may be, because nobody knows yet."""


async def recorded() -> Recording[Known]:
    recording: Recording[Known] = Recording((frozenset(), frozenset()))
    known: frozenset[str] = frozenset()
    for life in range(LIVES):
        async with living(SimDisk(recording.volume), rules=TINY) as controller:
            for number in range(TOPICS_OF_A_LIFE):
                name = f"t{life}-{number}"
                recording.note((known, frozenset({name})))
                await controller.ask(CreateTopicsRequest(topics=[topic(name)], timeout_ms=60_000))
                known |= {name}
                recording.note((known, frozenset()))
                if number % 3 == 2:
                    known = await deleted(controller, recording, known, f"t{life}-{number - 1}")
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
        controller = await started(SimDisk(ending.volume), rules=TINY)
    except StartError as error:
        raise AssertionError(f"{where}: {error}") from error
    found = set(controller.images.committed.topics.by_name)
    assert must <= found <= must | may, where
    await controller.close()


@pytest.mark.parametrize("seed", range(2))
async def test_nothing_that_was_answered_is_lost(seed: int) -> None:
    recording = await recorded()
    last = None
    for ending in recording.endings(1, seed, range(seed, len(recording.calls) + 1, STEP)):
        await check(ending)
        last = ending
    assert last is not None
    assert len(last.known[0]) == LIVES * (TOPICS_OF_A_LIFE - 3)
    names = SimDisk(recording.volume).names("__cluster_metadata-0")
    assert "00000000000000000000.log" not in names
    assert len([name for name in names if name.endswith(".checkpoint")]) >= 1
