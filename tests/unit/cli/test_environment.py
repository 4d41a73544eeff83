"""Tests of environment variables that set configs and command-line options."""

from __future__ import annotations

import logging
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pykbroker.cli.main import pykbroker
from pykbroker.cli.start.options import Options
from pykbroker.core.address import Address
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.environment import config_name
from pykbroker.core.errors import StartError
from pykbroker.core.new_topic import NewTopic

JVM = {
    "KAFKA_HEAP_OPTS": "-Xmx1g",
    "KAFKA_JMX_PORT": "9101",
    "KAFKA_LOG4J_ROOT_LOGLEVEL": "INFO",
    "KAFKA_OPTS": "-javaagent:/x.jar",
    "KAFKA_PORT": "tcp://10.0.0.7:9092",
    "KAFKA_PORT_9092_TCP_ADDR": "10.0.0.7",
    "KAFKA_SERVICE_HOST": "10.0.0.7",
    "KAFKA_SERVICE_PORT_CLIENTS": "9092",
}


def config(container: bool = False, **environ: str) -> BrokerConfig:
    return Options(container=container, environ=environ).settings().config


@pytest.mark.parametrize(
    ("variable", "name"), [("NUM_PARTITIONS", "num.partitions"), ("A__B", "a_b"), ("A___B", "a-b"), ("A", "a")]
)
def test_an_underscore_in_a_variable_stands_for_a_dot_an_underscore_or_a_hyphen(variable: str, name: str) -> None:
    assert config_name(variable) == name


def test_variables_take_precedence_over_the_file_and_options_over_variables(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nmessage.max.bytes=2000\n")
    environ = {"PYKBROKER_NUM_PARTITIONS": "3", "PYKBROKER_LOG_RETENTION_MS": "3000"}
    settings = Options(file=str(file), environ=environ, configs={"log.retention.ms": "4000"}).settings()
    assert (settings.config.num_partitions, settings.config.get("log.retention.ms")) == (3, 4000)
    assert settings.config.get("message.max.bytes") == 2000


def test_a_config_of_pykbroker_needs_its_prefix_only_once() -> None:
    assert config(PYKBROKER_FLUSH_BEFORE_ACK="true").pykbroker_flush_before_ack is True


def test_a_variable_that_names_no_config_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(StartError, match="PYKBROKER_NUM_PARTITION: .* did you mean num.partitions"):
        config(PYKBROKER_NUM_PARTITION="3")


def test_an_invalid_value_is_reported_with_its_variable() -> None:
    with pytest.raises(click.UsageError, match=r"^PYKBROKER_NUM_PARTITIONS: "):
        config(PYKBROKER_NUM_PARTITIONS="many")
    with pytest.raises(click.UsageError, match=r"^KAFKA_NODE_ID: Invalid value x for configuration node.id: "):
        config(container=True, KAFKA_NODE_ID="x")
    with pytest.raises(click.UsageError, match=r"^KAFKA_BROKER_ID: Invalid value -1 for configuration node.id: "):
        config(container=True, KAFKA_BROKER_ID="-1")


def test_configs_that_kafka_has_removed_are_named_with_those_that_have_taken_their_place() -> None:
    options = Options(container=True, environ={"KAFKA_PORT": "9093", "KAFKA_LISTENERS": "PLAINTEXT://:9092"})
    assert list(options.without_effect()) == [
        "KAFKA_PORT: port is no broker config any more, as in Kafka 4; listeners has taken its place. It has no effect."
    ]


def test_a_node_that_is_only_a_controller_is_refused_before_its_listeners() -> None:
    with pytest.raises(StartError, match=r"^KAFKA_PROCESS_ROLES: process.roles: a node of"):
        config(container=True, KAFKA_PROCESS_ROLES="controller", KAFKA_LISTENERS="CONTROLLER://:9093")


def test_variables_for_options_and_for_tests_are_not_read_as_configs() -> None:
    config(PYKBROKER_BOOTSTRAP="a:1", PYKBROKER_DATA_DIR="/d", PYKBROKER_TEST_ALL_EXAMPLES="1")


def test_kafka_variables_are_read_in_a_container_only() -> None:
    assert config(KAFKA_NUM_PARTITIONS="7").num_partitions == 1
    assert config(container=True, KAFKA_NUM_PARTITIONS="7").num_partitions == 7
    assert config(container=True, KAFKA_NUM_PARTITIONS="7", PYKBROKER_NUM_PARTITIONS="8").num_partitions == 8


def test_variables_for_a_jvm_or_from_kubernetes_are_ignored() -> None:
    options = Options(container=True, environ={**JVM, "KAFKA_NUM_PARTITIONS": "7"})
    assert options.passed_over() == tuple(sorted(JVM))
    assert list(options.without_effect()) == []
    assert options.settings().config.num_partitions == 7


def test_a_kafka_variable_that_names_no_config_is_ignored() -> None:
    options = Options(container=True, environ={"KAFKA_NUM_PARTITION": "7"})
    assert list(options.without_effect()) == [
        "KAFKA_NUM_PARTITION: There is no broker config num.partition; did you mean num.partitions? It has no effect."
    ]


def test_a_container_listens_on_all_interfaces_and_advertises_localhost() -> None:
    settings = Options(container=True).settings()
    assert settings.config.get("listeners") == ("PLAINTEXT://0.0.0.0:9092",)
    assert settings.config.get("advertised.listeners") == ("PLAINTEXT://localhost:9092",)
    settings = Options(container=True, environ={"KAFKA_LISTENERS": "PLAINTEXT://:19092"}).settings()
    assert settings.config.get("listeners") == ("PLAINTEXT://0.0.0.0:19092",)
    assert settings.listeners[0].advertised is None


def test_a_container_with_variables_of_bitnami_tells_each_client_the_address_that_it_used() -> None:
    settings = Options(container=True, environ={"ALLOW_PLAINTEXT_LISTENER": "yes"}).settings()
    assert settings.config.get("listeners") == ("PLAINTEXT://0.0.0.0:9092",)
    assert settings.listeners[0].advertised is None


ADVERTISED = "PLAINTEXT://kafka:29092,PLAINTEXT_HOST://localhost:9092"
MAP = "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT"


def test_a_container_listens_on_the_ports_that_it_advertises() -> None:
    environ = {"KAFKA_ADVERTISED_LISTENERS": ADVERTISED, "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": MAP}
    for missing in ({}, {"KAFKA_LISTENERS": ""}):
        found = Options(container=True, environ={**environ, **missing}).settings().config
        assert found.get("listeners") == ("PLAINTEXT://0.0.0.0:29092", "PLAINTEXT_HOST://0.0.0.0:9092")
        assert found.get("advertised.listeners") == tuple(ADVERTISED.split(","))
    written = config(container=True, KAFKA_CFG_LISTENERS="PLAINTEXT://:1,PLAINTEXT_HOST://:2", **environ)
    assert written.get("listeners") == ("PLAINTEXT://0.0.0.0:1", "PLAINTEXT_HOST://0.0.0.0:2")


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        (
            {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka"},
            "KAFKA_ADVERTISED_LISTENERS: advertised.listeners: 'kafka' is not HOST:PORT, such as 127.0.0.1:9092 or"
            " [::1]:9092",
        ),
        (
            {"KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092,SSL://localhost:9092"},
            "KAFKA_CFG_ADVERTISED_LISTENERS: advertised.listeners without listeners: PLAINTEXT and SSL share port 9092:"
            " give each listener its own",
        ),
        (
            {"KAFKA_ADVERTISED_LISTENERS": ADVERTISED},
            "listeners: PLAINTEXT_HOST has no security protocol: add PLAINTEXT_HOST:PLAINTEXT to"
            " listener.security.protocol.map",
        ),
    ],
)
def test_advertised_listeners_from_which_none_can_be_derived_are_refused(
    environ: dict[str, str], sentence: str
) -> None:
    with pytest.raises(StartError) as caught:
        config(container=True, **environ)
    assert str(caught.value) == sentence


def test_the_cluster_id_of_the_option_takes_precedence_over_the_variable() -> None:
    environ = {"CLUSTER_ID": "x"}
    assert Options(environ=environ).settings().cluster_id is None
    assert Options(container=True, environ=environ).settings().cluster_id == ("x", "CLUSTER_ID")
    chosen = Options(container=True, environ=environ, cluster_id="y").settings()
    assert chosen.cluster_id == ("y", "--cluster-id")
    with pytest.raises(StartError, match="^--cluster-id: '' is no cluster id"):
        Options(cluster_id="").settings()


def test_a_topic_of_an_option_takes_precedence_over_that_of_the_variable() -> None:
    environ = {"KAFKA_CREATE_TOPICS": "a:3:1,b:1:1"}
    assert Options(environ=environ).settings().topics == ()
    found = Options(container=True, environ=environ, topics=(NewTopic("a", 7),)).settings().topics
    assert [(topic.name, topic.partitions) for topic in found] == [("a", 7), ("b", 1)]


def test_options_may_be_set_by_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr("pykbroker.cli.start.run.run", lambda *arguments: seen.append(arguments))
    environ = {
        "PYKBROKER_LISTEN": "127.0.0.1:19092 b=[::1]:1",
        "PYKBROKER_MEMORY": "1",
        "PYKBROKER_LOG_FORMAT": "json",
        "PYKBROKER_CONSOLE": "127.0.0.1:9308",
        "PYKBROKER_CLUSTER_ID": "x",
        "PYKBROKER_CONTAINER": "1",
    }
    assert CliRunner().invoke(pykbroker, ["start"], env=environ).exit_code == 0
    ((options, _, log_format, console, *_),) = seen
    assert (options.listen, options.memory, log_format) == (
        (("", Address("127.0.0.1", 19092)), ("B", Address("::1", 1))),
        True,
        "json",
    )
    assert str(console) == "127.0.0.1:9308"
    assert (options.cluster_id, options.container) == ("x", True)


def test_the_error_for_an_invalid_option_names_its_variable() -> None:
    ended = CliRunner().invoke(pykbroker, ["start"], env={"PYKBROKER_LISTEN": "nowhere"})
    assert ended.exit_code == 2
    assert "PYKBROKER_LISTEN" in ended.stderr
    assert "'nowhere' is not HOST:PORT" in ended.stderr


def test_ignored_variables_are_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykbroker.cli.start.run.serve", lambda *_, **__: None)
    caplog.set_level(logging.INFO)
    ended = CliRunner().invoke(pykbroker, ["start", "--memory", "--container"], env={"KAFKA_OPTS": "-Dx=y"})
    assert ended.exit_code == 0
    assert "pykbroker has no use for: KAFKA_OPTS" in caplog.text


def test_one_of_several_controllers_is_refused_with_its_variable() -> None:
    with pytest.raises(StartError, match="^KAFKA_CONTROLLER_QUORUM_VOTERS: .* names 2 controllers"):
        config(container=True, KAFKA_CONTROLLER_QUORUM_VOTERS="1@kafka1:9093,2@kafka2:9093")
    voters = "1@kafka1:9093,2@kafka2:9093"
    config(container=True, KAFKA_CONTROLLER_QUORUM_VOTERS=voters, KAFKA_PROCESS_ROLES="broker", KAFKA_NODE_ID="3")
