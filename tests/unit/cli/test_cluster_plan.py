"""The options of the brokers of `pykbroker cluster`."""

from __future__ import annotations

import pytest

from pykbroker.cli.cluster_plan import ClusterPlan
from pykbroker.cli.options import Options
from pykbroker.cli.parameters import named_address
from pykbroker.core.address import Address
from pykbroker.core.settings import Settings


def settings(plan: ClusterPlan, node_id: int) -> Settings:
    """Return the settings that a broker of the cluster reads from its options."""
    address = Address(plan.listen.host, plan.port(node_id))
    options = plan.options(node_id, address, plan.controller)
    pairs = list(zip(options[::2], options[1::2], strict=True))
    return Options(
        listen=tuple(named_address(value) for name, value in pairs if name == "--listen"),
        configs={value.partition("=")[0]: value.partition("=")[2] for name, value in pairs if name == "--set"},
    ).settings()


def test_the_first_broker_is_the_controller_and_the_others_find_it() -> None:
    plan = ClusterPlan(3, 1, Address("127.0.0.1", 9092))
    first, *others = (settings(plan, node_id) for node_id in (1, 2, 3))
    assert [one.address for one in first.controller_listeners] == [Address("127.0.0.1", 9095)]
    assert [one.quorum for one in (first, *others)] == [(), *[(Address("127.0.0.1", 9095),)] * 2]
    assert [one.listeners[0].address.port for one in (first, *others)] == [9092, 9093, 9094]
    assert [one.config.node_id for one in (first, *others)] == [1, 2, 3]


@pytest.mark.parametrize(("replicas", "min_isr"), [(1, 1), (2, 1), (3, 2), (5, 2)])
def test_the_factor_of_replication_applies_to_all_topics(replicas: int, min_isr: int) -> None:
    config = settings(ClusterPlan(5, replicas, Address("127.0.0.1", 9092)), 2).config
    assert (config.default_replication_factor, config.min_insync_replicas) == (replicas, min_isr)
    assert config.get("offsets.topic.replication.factor") == replicas
    assert config.get("transaction.state.log.min.isr") == min_isr


def test_options_of_the_user_come_last_and_the_last_broker_creates_the_topics() -> None:
    plan = ClusterPlan(2, 1, Address("127.0.0.1", 0), ("a:6",), (("min.insync.replicas", "3"),))
    assert settings(plan, 1).config.min_insync_replicas == 3
    assert ["a:6" in plan.options(node_id, plan.listen, plan.controller) for node_id in (1, 2)] == [False, True]
    assert {plan.port(node_id) for node_id in (1, 2)} == {0}


def test_ports_above_the_highest_are_found() -> None:
    assert ClusterPlan(3, 1, Address("127.0.0.1", 65_533)).exceeds_ports
    assert not ClusterPlan(3, 1, Address("127.0.0.1", 65_532)).exceeds_ports
