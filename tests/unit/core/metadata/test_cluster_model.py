"""Tests of the controller on a model of replicating brokers, with random faults, and of the model on planted bugs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from pykbroker.core.metadata import (
    alter_partition,
    broker_changes,
    controller_tasks,
    election,
    partition_change,
    registration,
)
from tests.unit.core.metadata.cluster_model import ClusterModel, Unsafe
from wire.error_codes import ErrorCode
from wire.messages.alter_partition import BrokerState
from wire.sentinels import NO_BROKER_EPOCH

SEEDS = 60
PLANTED_SEEDS_MAX = 200
EVENTS = 400
REACHED = {"clean stop", "unclean start", "unclean election", "eligible", "altered", "ineligible", "unregistered"}

Fault = tuple[Any, str, Callable[..., Any]]


def one_partition_at_a_time() -> ExitStack:
    """Make the portions of a fence as small as possible, so that other events take place between them."""
    small = ExitStack()
    for module in (broker_changes, controller_tasks):
        small.enter_context(patch.object(module, "PORTION_PARTITIONS", 1))
    return small


@pytest.mark.parametrize("in_portions", [False, True], ids=["at once", "in portions"])
def test_no_committed_record_is_lost_unless_an_election_is_marked_as_unclean(in_portions: bool) -> None:
    reached: set[str] = set()
    with one_partition_at_a_time() if in_portions else ExitStack():
        for seed in range(SEEDS):
            model = ClusterModel(seed).run(EVENTS)
            model.check_settled()
            assert model.harness.replayed() == model.harness.freeze().image
            reached |= model.seen
    assert reached >= REACHED


def _keep_unclean(original: Callable[..., Any]) -> Callable[..., Any]:
    """Keep a broker in the ELR although it went down uncleanly."""

    def split(*arguments: Any, **named: Any) -> Any:
        kept, lost = yield from original(*arguments, **named)
        return kept + lost, []

    return split


def _ignore(*codes: ErrorCode) -> Callable[..., Any]:
    """Accept requests that these errors would refuse."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def fault(*arguments: Any) -> Any:
            found = original(*arguments)
            return None if found in codes else found

        return fault

    return wrap


def _any_epoch(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda context, partition, member: original(
        context, partition, BrokerState(member.broker_id, NO_BROKER_EPOCH)
    )


def _registered(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda context, partition, member: context.broker(member.broker_id) is not None


def _any_replica(original: Callable[..., Any]) -> Callable[..., Any]:
    def eligible(partition: Any, isr: Any, rules: Any, lost: Any) -> Any:
        small = len(isr) < rules.min_isr
        return tuple(one for one in partition.replicas if small and one not in isr and one != lost)

    return eligible


def _never_emptied(original: Callable[..., Any]) -> Callable[..., Any]:
    def eligible(partition: Any, isr: Any, rules: Any, lost: Any) -> Any:
        return tuple(one for one in (*partition.elr, *partition.isr) if one not in (*isr, lost))

    return eligible


def _never_recovering(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, **named: msgspec.structs.replace(original(*arguments, **named), recovering=False)


def _nothing_settled(original: Callable[..., Any]) -> Callable[..., Any]:
    def settle(tasks: Any, context: Any) -> Any:
        tasks._unsettled.clear()
        return []

    return settle


PLANTED: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "an unclean replica is kept in the ELR": (registration, "_split", _keep_unclean),
    "an old broker epoch is let into the ISR": (alter_partition, "_eligible", _any_epoch),
    "a fenced broker is let into the ISR": (alter_partition, "_eligible", _registered),
    "an old partition epoch is accepted": (alter_partition, "epoch_fault", _ignore(ErrorCode.INVALID_UPDATE_VERSION)),
    "an old leader epoch is accepted": (alter_partition, "epoch_fault", _ignore(ErrorCode.FENCED_LEADER_EPOCH)),
    "every replica is eligible": (election, "_eligible", _any_replica),
    "a large ISR does not empty the ELR": (election, "_eligible", _never_emptied),
    "an unclean leader does not recover": (partition_change, "elect", _never_recovering),
    "a fence ends after its first portion": (controller_tasks.ControllerTasks, "_settle", _nothing_settled),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_the_model_finds_each_planted_bug(bug: str) -> None:
    where, name, plant = PLANTED[bug]
    planted = patch.object(where, name, plant(getattr(where, name)))
    with one_partition_at_a_time(), planted, pytest.raises(Unsafe):
        _play(PLANTED_SEEDS_MAX)


def _play(seeds: int) -> None:
    for seed in range(seeds):
        ClusterModel(seed).run(EVENTS).check_settled()
