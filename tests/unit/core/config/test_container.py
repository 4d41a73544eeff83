"""Tests of the variables with which compose files configure an image of Kafka."""

from __future__ import annotations

import pytest

from pykbroker.core.cluster_id import RequiredClusterId
from pykbroker.core.config.container import container_configs, created_topics
from pykbroker.core.errors import StartError
from pykbroker.core.new_topic import NewTopic

CLUSTER_IDS = ("CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID")
FORM = "NAME:PARTITIONS:REPLICAS or NAME:PARTITIONS:REPLICAS:POLICY, such as orders:3:1 or orders:1:1:compact"
OF_BITNAMI = {
    "ALLOW_PLAINTEXT_LISTENER": "yes",
    "BITNAMI_DEBUG": "true",
    "KAFKA_ENABLE_KRAFT": "yes",
    "KAFKA_BROKER_ID": "1",
    "KAFKA_KRAFT_CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qk",
    "KAFKA_CFG_NODE_ID": "1",
    "KAFKA_CFG_PROCESS_ROLES": "broker,controller",
    "KAFKA_CFG_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "KAFKA_LOG_DIRS": "/var/lib/kafka/data",
    "KAFKA_CFG_LOG_DIRS": "/bitnami/kafka/data",
}


def test_the_variables_of_bitnami_are_configs_and_a_cluster_id() -> None:
    found = container_configs(OF_BITNAMI)
    assert found.texts == {
        "broker.id": "1",
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "log.dirs": "/bitnami/kafka/data",
    }
    assert found.place("node.id") == "KAFKA_CFG_NODE_ID"
    assert found.cluster_id == RequiredClusterId("MkU3OEVBNTcwNTJENDM2Qk", "KAFKA_KRAFT_CLUSTER_ID")
    assert found.passed_over == ("ALLOW_PLAINTEXT_LISTENER", "BITNAMI_DEBUG")
    assert found.warnings == ()


@pytest.mark.parametrize("off", ["no", "False", " 0 "])
def test_a_mode_without_kraft_has_a_warning(off: str) -> None:
    assert container_configs({"KAFKA_ENABLE_KRAFT": off}).warnings == (
        "KAFKA_ENABLE_KRAFT: there is no ZooKeeper mode, as in Kafka 4. The variable has no effect.",
    )


def test_a_command_that_prints_a_value_has_a_warning() -> None:
    found = container_configs({"BROKER_ID_COMMAND": "hostname | tail -c 2", "RACK_COMMAND": ""})
    assert found.warnings == ("BROKER_ID_COMMAND has no effect, as no command is run: write the value that it prints.",)


def test_an_advertised_port_without_a_host_has_a_warning() -> None:
    found = container_configs({"KAFKA_ADVERTISED_PORT": "9092"})
    assert found.warnings == ("KAFKA_ADVERTISED_PORT has no effect without KAFKA_ADVERTISED_HOST_NAME.",)


def test_an_empty_variable_requires_no_cluster_id_and_names_no_listener() -> None:
    found = container_configs({"CLUSTER_ID": "", "KAFKA_LISTENERS": " ", "KAFKA_ADVERTISED_LISTENERS": ""})
    assert (found.cluster_id, found.texts) == (None, {})
    assert container_configs({"CLUSTER_ID": "", "KAFKA_KRAFT_CLUSTER_ID": "x"}).cluster_id == ("x", CLUSTER_IDS[1])


def test_the_host_and_the_ports_of_wurstmeister_are_a_listener() -> None:
    host, ports = {"KAFKA_ADVERTISED_HOST_NAME": "kafka"}, {"KAFKA_ADVERTISED_PORT": "19092", "KAFKA_PORT": "9093"}
    found = container_configs(host)
    assert found.texts == {"listeners": "PLAINTEXT://:9092", "advertised.listeners": "PLAINTEXT://kafka:9092"}
    assert {found.place("listeners"), found.place("advertised.listeners")} == {"KAFKA_ADVERTISED_HOST_NAME"}
    found = container_configs({**host, **ports})
    assert found.texts == {"listeners": "PLAINTEXT://:9093", "advertised.listeners": "PLAINTEXT://kafka:19092"}
    assert found.place("listeners") == "KAFKA_PORT"
    assert container_configs({**host, "KAFKA_PORT": "9093"}).texts["advertised.listeners"] == "PLAINTEXT://kafka:9093"
    assert container_configs({"KAFKA_PORT": "9093"}).texts == {"listeners": "PLAINTEXT://:9093"}
    for address in ("::1", "[::1]"):
        texts = container_configs({"KAFKA_ADVERTISED_HOST_NAME": address}).texts
        assert texts["advertised.listeners"] == "PLAINTEXT://[::1]:9092"
    new = {"advertised.listeners": "PLAINTEXT://localhost:9092"}
    environ = {**host, **ports, "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092"}
    assert container_configs(environ).texts == {**new, "port": "9093"}


def test_the_variables_of_debezium_have_no_prefix() -> None:
    environ = {
        "NODE_ID": "2",
        "NODE_ROLE": "combined",
        "ADVERTISED_HOST_NAME": "kafka",
        "ADVERTISED_PORT": "19092",
        "CREATE_TOPICS": "a:3:1",
    }
    found = container_configs(environ)
    assert found.texts == {
        "node.id": "2",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://:9092",
        "advertised.listeners": "PLAINTEXT://kafka:19092",
    }
    assert (found.place("node.id"), found.place("advertised.listeners")) == ("NODE_ID", "ADVERTISED_HOST_NAME")
    assert found.topics == (NewTopic("a", 3, {}, 1, "CREATE_TOPICS"),)
    assert container_configs({"NODE_ROLE": "broker"}).texts == {"process.roles": "broker"}
    old = {"BROKER_ID": "1", "ZOOKEEPER_CONNECT": "zookeeper:2181"}
    assert container_configs(old).texts == {"broker.id": "1", "zookeeper.connect": "zookeeper:2181"}
    same = {"NODE_ROLE": "combined", "KAFKA_PROCESS_ROLES": "broker,controller"}
    assert container_configs(same).texts == {"process.roles": "broker,controller"}


@pytest.mark.parametrize(
    ("variable", "is_of_service"),
    [
        ("KAFKA_PORT=tcp://10.0.0.7:9092", True),
        ("KAFKA_UI_PORT=tcp://10.0.0.7:8080", True),
        ("KAFKA_UI_PORT_8080_TCP_ADDR=10.0.0.7", True),
        ("KAFKA_BROKER_SERVICE_HOST=10.0.0.7", True),
        ("KAFKA_BROKER_SERVICE_PORT_CLIENTS=9092", True),
        ("KAFKA_PORT=9093", False),
        ("KAFKA_UI_PORT=8080", False),
    ],
)
def test_variables_that_kubernetes_sets_for_services_are_passed_over(variable: str, is_of_service: bool) -> None:
    name, _, value = variable.partition("=")
    found = container_configs({name: value})
    assert (found.passed_over, bool(found.texts)) == ((name,) if is_of_service else (), not is_of_service)


@pytest.mark.parametrize(
    ("variable", "is_container"),
    [
        ("ALLOW_PLAINTEXT_LISTENER", True),
        ("KAFKA_CFG_NUM_PARTITIONS", True),
        ("KAFKA_ZOOKEEPER_CONNECT", True),
        ("NODE_ROLE", True),
        ("KAFKA_NUM_PARTITIONS", False),
    ],
)
def test_some_images_advertise_an_address_of_the_container(variable: str, is_container: bool) -> None:
    assert container_configs({variable: "1"}).container_address is is_container


def test_variables_of_one_config_may_have_the_same_value() -> None:
    same = {"KAFKA_NUM_PARTITIONS": "3", "KAFKA_CFG_NUM_PARTITIONS": "3", "CLUSTER_ID": "x", CLUSTER_IDS[1]: "x"}
    found = container_configs(same)
    assert (found.texts, found.cluster_id) == ({"num.partitions": "3"}, ("x", "CLUSTER_ID"))


def test_variables_of_one_name_that_is_no_config_may_differ() -> None:
    found = container_configs({"KAFKA_ZOOKEEPER_CONNECT": "a:2181", "KAFKA_CFG_ZOOKEEPER_CONNECT": "b:2181"})
    assert found.texts == {"zookeeper.connect": "b:2181"}


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        (
            {"KAFKA_NUM_PARTITIONS": "3", "KAFKA_CFG_NUM_PARTITIONS": "4"},
            "KAFKA_CFG_NUM_PARTITIONS and KAFKA_NUM_PARTITIONS have different values: remove one of them",
        ),
        (
            dict(zip(CLUSTER_IDS, "xy", strict=True)),
            "CLUSTER_ID and KAFKA_KRAFT_CLUSTER_ID have different values: remove one of them",
        ),
        ({"NODE_ID": "1", "KAFKA_NODE_ID": "2"}, "KAFKA_NODE_ID and NODE_ID have different values: remove one of them"),
        (
            {"CREATE_TOPICS": "a:1:1", "KAFKA_CREATE_TOPICS": "b:1:1"},
            "KAFKA_CREATE_TOPICS and CREATE_TOPICS have different values: remove one of them",
        ),
        ({"CREATE_TOPICS": "a"}, f"CREATE_TOPICS: 'a' is not {FORM}"),
        (
            {"CLUSTER_ID": " x"},
            "CLUSTER_ID: ' x' is no cluster id: write one such as MkU3OEVBNTcwNTJENDM2Qk, in printable ASCII without"
            " backslashes, and without spaces at its ends",
        ),
        (
            {"KAFKA_ADVERTISED_HOST_NAME": "kafka", "KAFKA_ADVERTISED_PORT": "x"},
            "KAFKA_ADVERTISED_HOST_NAME and KAFKA_ADVERTISED_PORT: 'x' in 'kafka:x' is not a port: 0 to 65535",
        ),
    ],
)
def test_variables_that_contradict_each_other_are_refused(environ: dict[str, str], sentence: str) -> None:
    with pytest.raises(StartError) as caught:
        container_configs(environ)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("text", "separators", "topics"),
    [
        ("", ",", []),
        (" , ", ",", []),
        ("a:3:1,b:1:1:compact", ",", [("a", 3, {}, 1), ("b", 1, {"cleanup.policy": "compact"}, 1)]),
        ("a:3:1;b:1:2:compact,delete", ";", [("a", 3, {}, 1), ("b", 1, {"cleanup.policy": "compact,delete"}, 2)]),
        ("\n  a:3:1\n  b:1:1 \n", " \n", [("a", 3, {}, 1), ("b", 1, {}, 1)]),
        ("a:1:1:", ",", [("a", 1, {}, 1)]),
        ("a:2147483647:32767", ",", [("a", 2147483647, {}, 32767)]),
    ],
)
def test_topics_to_create_are_separated(
    text: str, separators: str, topics: list[tuple[str, int, dict[str, str], int]]
) -> None:
    assert list(created_topics(text, separators)) == [NewTopic(*topic, "KAFKA_CREATE_TOPICS") for topic in topics]


@pytest.mark.parametrize(
    "entry",
    [
        "a",
        "a:3",
        "a:x:1",
        "a:1_0:1",
        "a:+1:1",
        "a:3:",
        "a:0:1",
        "a:3:0",
        f"a:1{'0' * 5000}:1",
        "a:2147483648:1",
        "a:1:32768",
        "a:1:1:compacted",
        "a:1:1:delete:x",
    ],
)
def test_a_topic_of_another_form_is_refused(entry: str) -> None:
    with pytest.raises(StartError) as caught:
        created_topics(f"b:1:1,{entry}")
    assert str(caught.value) == f"KAFKA_CREATE_TOPICS: {entry!r} is not {FORM}"


def test_a_topic_with_an_invalid_name_or_named_twice_is_refused() -> None:
    with pytest.raises(StartError, match="^KAFKA_CREATE_TOPICS: 'a b:1:1': Topic name is invalid: .*: write another"):
        created_topics("a b:1:1")
    with pytest.raises(StartError, match="^KAFKA_CREATE_TOPICS has the topic a twice: remove one of them$"):
        created_topics("a:1:1,b:1:1,a:1:1")
