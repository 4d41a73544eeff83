"""Requests for thousands of partitions: decided, written and replayed in shares of the loop, and yet as a whole."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from pykbroker.quorum.controller import Controller
from pykbroker.world.turns import SHARE_NS, STEPS_A_LOOK
from tests.unit.quorum.logs import disk_at, living
from wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

MANY = 2_000
SLOW = SHARE_NS + 1
"""A clock that goes so far between two looks finds each share used up."""


class Bystander:
    """Counts how often it has the loop."""

    def __init__(self) -> None:
        self.turns = 0

    async def run(self) -> None:
        while True:
            await trio.lowlevel.checkpoint()
            self.turns += 1


def creation(partitions: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=partitions, replication_factor=1)])


def made(controller: Controller) -> int:
    """Return the number of partitions of the topic in the newest image."""
    topic = controller.images.committed.topics.by_name.get("t")
    return 0 if topic is None else len(topic.partitions)


REASSIGNMENT = AlterPartitionReassignmentsRequest(
    topics=[ReassignableTopic("t", [ReassignablePartition(index, [1]) for index in range(MANY)])]
)
ELECTION = ElectLeadersRequest(topic_partitions=[TopicPartitions("nowhere", list(range(MANY)))])
CONFIGS = IncrementalAlterConfigsRequest(
    resources=[
        AlterConfigsResource(2, f"nowhere{number}", [AlterableConfig("retention.ms", 0, "1")]) for number in range(MANY)
    ]
)

Ask = Callable[[Controller], Awaitable[object]]


@pytest.mark.parametrize(
    ("ask", "passes"),
    [
        (lambda controller: controller.ask(creation(MANY)), 3),
        (lambda controller: controller.ask(REASSIGNMENT), 1),
        (lambda controller: controller.ask(ELECTION), 1),
        (lambda controller: controller.ask(CONFIGS), 1),
    ],
    ids=["CreateTopics", "AlterPartitionReassignments", "ElectLeaders", "IncrementalAlterConfigs"],
)
async def test_others_have_their_turn(tmp_path: Path, ask: Ask, passes: int) -> None:
    async with living(disk_at(tmp_path), tick_ns=SLOW) as controller, trio.open_nursery() as nursery:
        nursery.start_soon((bystander := Bystander()).run)
        await ask(controller)
        assert bystander.turns >= passes * MANY // STEPS_A_LOOK
        nursery.cancel_scope.cancel()


async def test_no_image_holds_a_part_of_a_topic(tmp_path: Path) -> None:
    seen = set[int]()

    async def look(controller: Controller) -> None:
        while True:
            await trio.lowlevel.checkpoint()
            controller._shell._replies._due.set()  # a commit is due at any time
            seen.add(made(controller))

    async with living(disk_at(tmp_path), tick_ns=SLOW) as controller, trio.open_nursery() as nursery:
        nursery.start_soon(look, controller)
        await controller.ask(creation(MANY))
        assert seen | {made(controller)} == {0, MANY}
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("turns", range(0, 420, 30))
async def test_a_caller_who_gives_up_leaves_all_of_it_or_nothing(tmp_path: Path, turns: int) -> None:
    async with living(disk_at(tmp_path), tick_ns=SLOW) as controller, trio.open_nursery() as nursery:
        nursery.start_soon((bystander := Bystander()).run)
        with trio.CancelScope() as scope:
            nursery.start_soon(_cancel_after, bystander, turns, scope)
            await controller.ask(creation(MANY))
        await controller.ask(
            CreateTopicsRequest(topics=[CreatableTopic(name="next", num_partitions=1, replication_factor=1)])
        )
        assert made(controller) in (0, MANY)
        nursery.cancel_scope.cancel()


async def _cancel_after(bystander: Bystander, turns: int, scope: trio.CancelScope) -> None:
    while bystander.turns < turns:
        await trio.lowlevel.checkpoint()
    scope.cancel()
