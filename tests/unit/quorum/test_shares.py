"""Tests of controller requests for thousands of partitions: other tasks run meanwhile, and the change is atomic."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from pykbroker.quorum.controller import Controller
from pykbroker.world.turns import SHARE_NS, STEPS_A_LOOK
from tests.unit.quorum.logs import disk_at, running_controller
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
"""The nanoseconds that the clock advances at each reading, more than the time slice of a request."""


class PassCounter:
    """A task that counts the passes of the event loop."""

    def __init__(self) -> None:
        self.passes_seen = 0

    async def run(self) -> None:
        while True:
            await trio.lowlevel.checkpoint()
            self.passes_seen += 1


def creation(partitions: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=partitions, replication_factor=1)])


def partition_count(controller: Controller) -> int:
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
async def test_other_tasks_run_during_a_large_request(tmp_path: Path, ask: Ask, passes: int) -> None:
    async with running_controller(disk_at(tmp_path), tick_ns=SLOW) as controller, trio.open_nursery() as nursery:
        nursery.start_soon((counter := PassCounter()).run)
        await ask(controller)
        assert counter.passes_seen >= passes * MANY // STEPS_A_LOOK
        nursery.cancel_scope.cancel()


async def test_no_image_contains_only_some_partitions_of_a_new_topic(tmp_path: Path) -> None:
    seen = set[int]()

    async def look(controller: Controller) -> None:
        while True:
            await trio.lowlevel.checkpoint()
            controller._shell._replies._due.set()  # Make a commit due, since it may become due at any moment.
            seen.add(partition_count(controller))

    async with running_controller(disk_at(tmp_path), tick_ns=SLOW) as controller, trio.open_nursery() as nursery:
        nursery.start_soon(look, controller)
        await controller.ask(creation(MANY))
        assert seen | {partition_count(controller)} == {0, MANY}
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("passes_seen", range(0, 420, 30))
async def test_a_cancelled_request_takes_effect_completely_or_not_at_all(tmp_path: Path, passes_seen: int) -> None:
    async with running_controller(disk_at(tmp_path), tick_ns=SLOW) as controller, trio.open_nursery() as nursery:
        nursery.start_soon((counter := PassCounter()).run)
        with trio.CancelScope() as scope:
            nursery.start_soon(_cancel_after, counter, passes_seen, scope)
            await controller.ask(creation(MANY))
        await controller.ask(
            CreateTopicsRequest(topics=[CreatableTopic(name="next", num_partitions=1, replication_factor=1)])
        )
        assert partition_count(controller) in (0, MANY)
        nursery.cancel_scope.cancel()


async def _cancel_after(counter: PassCounter, passes_seen: int, scope: trio.CancelScope) -> None:
    while counter.passes_seen < passes_seen:
        await trio.lowlevel.checkpoint()
    scope.cancel()
