"""Tests of the place of a node in the quorum of controllers."""

from __future__ import annotations

import pytest

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.quorum import check_only_controller, quorum_addresses
from pykbroker.core.errors import StartError

BOOTSTRAP, VOTERS = "controller.quorum.bootstrap.servers", "controller.quorum.voters"


@pytest.mark.parametrize(
    "texts",
    [
        {},
        {VOTERS: ""},
        {VOTERS: "1@localhost:9093"},
        {VOTERS: "1@:9093"},
        {VOTERS: "7@kafka:9093", "node.id": " 7 "},
        {VOTERS: "7@kafka:9093", "broker.id": "7"},
        {BOOTSTRAP: "kafka:9093"},
        {BOOTSTRAP: "kafka:9093", VOTERS: "1@kafka:9093"},
        {BOOTSTRAP: "kafka:9093,kafka:9093"},
    ],
)
def test_a_controller_may_name_itself(texts: dict[str, str]) -> None:
    check_only_controller(texts)
    BrokerConfig.from_mapping(texts)


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (
            {VOTERS: "1@kafka1:9093, 2@kafka2:9093,3@kafka3:9093"},
            "controller.quorum.voters names 3 controllers, but a cluster of pykbroker has one: write 1@kafka1:9093 on"
            " every node, and process.roles=broker on every node but that one",
        ),
        (
            {BOOTSTRAP: "kafka1:9093,kafka2:9093", VOTERS: "1@kafka1:9093"},
            "controller.quorum.bootstrap.servers names 2 controllers, but a cluster of pykbroker has one: write"
            " kafka1:9093 on every node, and process.roles=broker on every node but that one",
        ),
        (
            {VOTERS: "2@kafka2:9093"},
            "controller.quorum.voters names node 2, but this controller is node 1: write 1@kafka2:9093, or"
            " process.roles=broker if node 2 is the controller",
        ),
        (
            {VOTERS: "0@kafka:9093", "node.id": "10"},
            "controller.quorum.voters names node 0, but this controller is node 10: write 10@kafka:9093, or"
            " process.roles=broker if node 0 is the controller",
        ),
        (
            {VOTERS: "kafka:9093"},
            "controller.quorum.voters: 'kafka:9093' is not ID@HOST:PORT, such as 1@localhost:9093",
        ),
    ],
)
def test_a_controller_of_a_quorum_of_others_is_refused(texts: dict[str, str], sentence: str) -> None:
    with pytest.raises(StartError) as caught:
        check_only_controller(texts)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ({VOTERS: "1@:9093"}, f"{VOTERS}: :9093 has no host: write that of the controller before the port"),
        ({BOOTSTRAP: "kafka"}, f"{BOOTSTRAP}: 'kafka' is not HOST:PORT, such as 127.0.0.1:9092 or [::1]:9092"),
        ({}, f"process.roles is broker only: name the controller in {BOOTSTRAP}, as HOST:PORT"),
    ],
)
def test_a_broker_that_cannot_find_its_controller_is_refused(texts: dict[str, str], sentence: str) -> None:
    with pytest.raises(StartError) as caught:
        quorum_addresses(texts)
    assert str(caught.value) == sentence


WITH_ZOOKEEPER = {"zookeeper.connect": "zookeeper:2181"}
OFFSETS, DEFAULT = "offsets.topic.replication.factor", "default.replication.factor"


@pytest.mark.parametrize(
    "texts",
    [
        {},
        {"broker.id": "0"},
        {"broker.id": "1", OFFSETS: "1", DEFAULT: " 1 "},
        {"node.id": "2", "process.roles": "broker,controller", VOTERS: "2@kafka:9093"},
        {"broker.id": "2", "zookeeper.connect": ""},
        {OFFSETS: "", DEFAULT: "x"},
    ],
)
def test_a_broker_for_zookeeper_that_may_be_alone_starts(texts: dict[str, str]) -> None:
    check_only_controller({**WITH_ZOOKEEPER, **texts})


@pytest.mark.parametrize(
    ("texts", "sign"),
    [({"broker.id": "2"}, "its id is 2"), ({OFFSETS: "3"}, f"{OFFSETS}=3"), ({DEFAULT: "2"}, f"{DEFAULT}=2")],
)
def test_one_of_several_brokers_for_zookeeper_is_refused(texts: dict[str, str], sign: str) -> None:
    with pytest.raises(StartError) as caught:
        check_only_controller({**WITH_ZOOKEEPER, **texts})
    assert str(caught.value) == (
        f"zookeeper.connect: this is one of several brokers ({sign}), and would begin a cluster of its own, as there is"
        " no ZooKeeper mode: write process.roles=broker,controller on one broker, and process.roles=broker and"
        f" {BOOTSTRAP} on all others; for a broker that is alone, remove zookeeper.connect"
    )
