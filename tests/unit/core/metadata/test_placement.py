"""Tests of replica placement: racks in turn, unfenced brokers first, and a leader that may lead."""

from __future__ import annotations

import random
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.context import ControllerContext
from pykbroker.core.metadata.draft import ImageDraft
from pykbroker.core.metadata.image import BrokerImage
from pykbroker.core.metadata.partition_index import PartitionIndex
from pykbroker.core.metadata.placement import ReplicaPlacer, place
from pykbroker.core.metadata.sessions import BrokerSessions
from pykbroker.core.metadata.settings import ControllerSettings
from pykbroker.core.steps import finish
from tests.unit.core.metadata.harness import CLUSTER, Configs


def broker(
    broker_id: int, rack: str | None = None, *, fenced: bool = False, stopping: bool = False, cordoned: bool = False
) -> BrokerImage:
    directory = bytes([broker_id]) * 16
    return BrokerImage(
        id=broker_id,
        incarnation_id=directory,
        epoch=broker_id,
        rack=rack,
        fenced=fenced,
        in_controlled_shutdown=stopping,
        directories=(directory,),
        cordoned=(directory,) if cordoned else (),
    )


def placed(partitions: int, replicas: int, *brokers: BrokerImage, seed: int = 1) -> list[list[int]]:
    draft, settings = ImageDraft(), ControllerSettings(1, CLUSTER)
    for one in brokers:
        draft.put_broker(one)
    sessions = BrokerSessions(1, settings.broker_session_timeout_ms)
    context = ControllerContext(draft, 0, settings, Configs(), random.Random(seed), PartitionIndex(), sessions, 0.0)
    return finish(place(context, partitions, replicas))


@st.composite
def clusters(draw: st.DrawFn) -> list[BrokerImage]:
    racks = draw(st.integers(1, 4))
    count = draw(st.integers(1, 9))
    brokers = [broker(n, f"r{draw(st.integers(1, racks))}", fenced=draw(st.booleans())) for n in range(1, count + 1)]
    return [msgspec.structs.replace(brokers[0], fenced=False), *brokers[1:]]


@given(clusters(), st.integers(1, 9), st.integers(1, 30), st.integers(0, 99))
def test_replicas_are_distinct_in_as_many_racks_as_possible_and_led_by_an_unfenced_broker(
    brokers: list[BrokerImage], replicas: int, partitions: int, seed: int
) -> None:
    replicas = min(replicas, len(brokers))
    known = {one.id: one for one in brokers}
    racks = len({one.rack for one in brokers})
    for chosen in placed(partitions, replicas, *brokers, seed=seed):
        assert len(set(chosen)) == len(chosen) == replicas
        assert not known[chosen[0]].fenced
        assert len({known[one].rack for one in chosen}) == min(racks, replicas)
        for rack in {one.rack for one in brokers}:
            here = [one for one in brokers if one.rack == rack]
            if any(known[one].fenced and known[one].rack == rack for one in chosen):
                assert all(one.id in chosen for one in here if not one.fenced)


def test_racks_and_their_brokers_take_turns() -> None:
    brokers = [broker(n, "abc"[n % 3]) for n in range(9)]
    rows = placed(9, 3, *brokers, seed=5)
    assert all(len({n % 3 for n in row}) == 3 for row in rows)
    for replica in range(3):
        assert Counter(row[replica] for row in rows) == dict.fromkeys(range(9), 1)


def test_assignments_are_shuffled_once_each_broker_led_a_partition() -> None:
    rows = placed(60, 3, *(broker(n) for n in range(6)))
    assert len({tuple(row) for row in rows}) > 12
    assert Counter(row[0] for row in rows) == dict.fromkeys(range(6), 10)


def test_a_stopping_broker_and_a_cordoned_broker_get_no_replica() -> None:
    brokers = (broker(1), broker(2, stopping=True), broker(3, cordoned=True), broker(4, fenced=True))
    assert all(sorted(row) == [1, 4] for row in placed(5, 2, *brokers))
    with pytest.raises(ApiError, match="cannot be reached because only 2 broker"):
        placed(1, 3, *brokers)


def test_without_an_unfenced_broker_nothing_is_placed() -> None:
    with pytest.raises(ApiError, match="All brokers are currently fenced"):
        placed(1, 1, broker(1, fenced=True), broker(2, stopping=True))


def test_a_placer_can_place_all_brokers_of_a_rack_without_racks() -> None:
    placer = ReplicaPlacer([broker(1, fenced=True), broker(2)], random.Random(3))
    assert [placer.place(2) for _ in range(3)] == [[2, 1]] * 3
