"""The progress of reassignments, with a fake admin client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
import trio

from pykbroker.cli.topics import reassign_progress
from pykbroker.cli.topics.reassign_progress import Look, bytes_left, wait_until_done
from pykbroker.client.admin.reassignments import Reassignment
from pykbroker.core.topic_partition import TopicPartition
from wire.messages.metadata import MetadataResponsePartition

ONE = TopicPartition("a", 0)
MOVE = Reassignment(ONE, (1, 2, 3, 4), (2, 3, 4), (1,))


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Return the sizes of the replicas by broker, which tests set."""
    known: dict[int, int] = {}

    async def replica_bytes(admin: Any, wanted: Mapping[int, Iterable[TopicPartition]]) -> Any:
        assert all(list(partitions) == [ONE] for partitions in wanted.values())
        return {(broker, ONE): known[broker] for broker in wanted if broker in known}

    monkeypatch.setattr("pykbroker.client.admin.reassignments.replica_bytes", replica_bytes)
    return known


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        ({1: 100, 2: 100, 3: 40, 4: 70}, 60),
        ({1: 100, 3: 140, 4: 100}, 0),  # the one in the ISR does not count, and a copy may be larger than the leader's
        ({1: 100, 3: 40}, None),
        ({3: 40, 4: 40}, None),
    ],
)
async def test_the_replica_that_is_furthest_behind_counts(
    sizes: dict[int, int], replicas: dict[int, int], expected: int | None
) -> None:
    sizes.update(replicas)
    part = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1, 2, 3, 4], isr_nodes=[1, 2])
    admin: Any = None
    assert await bytes_left(admin, {ONE: MOVE}, {ONE: part}) == {ONE: expected}


def test_the_wait_prints_each_state_once_and_no_empty_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = [Look("2 partitions left", []), Look("2 partitions left", []), Look("1 partition left", []), Look("", [])]

    async def look_at(*_: object) -> Look:
        return looks.pop(0)

    monkeypatch.setattr(reassign_progress, "ask", lambda _, work: trio.run(work, None))
    monkeypatch.setattr(reassign_progress, "look_at", look_at)
    monkeypatch.setattr(reassign_progress, "POLL_S", 0)
    wait_until_done([], None, [])
    assert capsys.readouterr().err == (
        "2 partitions left\n1 partition left\nNo partition is being reassigned any more.\n"
    )
