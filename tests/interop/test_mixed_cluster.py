"""A broker of pykbroker under Apache Kafka's controller, and a broker of Apache Kafka under ours.

With PYKBROKER_TEST_SOAK_S=300 brokers are killed, paused and restarted for 300 s.
"""

from __future__ import annotations

import logging
import os
import re
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.interop.cluster_judge import judge, judge_replicas, wait_in_sync
from tests.interop.cluster_load import PARTITIONS, Load, prefer
from tests.interop.kafka_cluster import KafkaCluster
from tests.interop.mixed_cluster import our_broker
from tests.interop.raw_client import RawClient
from tests.interop.scenarios import eventually
from tests.interop.secured_cluster import ALICE, NODES, PROTOCOLS, THEIRS, USERS, SecuredCluster
from tests.interop.soak import TIMEOUT_S, faults_of_soak
from tests.interop.test_cluster import consumed, copy_in_transactions
from tools.broker_process import BrokerProcess
from wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse
from wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from wire.messages.metadata import MetadataRequest, MetadataResponse

pytestmark = pytest.mark.timeout(TIMEOUT_S)
MESSAGES = 60
BROKER_RESOURCE, BROKER_LOGGER_RESOURCE = 4, 8
OPEN = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT"
"""The protocols of the listeners of `KafkaCluster`."""
OURS = 4
"""The id of the broker of pykbroker among Kafka's."""
logger = logging.getLogger(__name__)


class Victim(NamedTuple):
    """A broker that a test kills, stops in order, pauses by its pid, and starts again."""

    name: str
    kill: Callable[[], object]
    stop: Callable[[], object]
    start: Callable[[], None]
    pid: Callable[[], int]


class Mixed(NamedTuple):
    """A cluster: the addresses of a broker of each kind, of all brokers, and the replicas of each partition.

    `directories` are those of the brokers with replicas. `victims` is a broker of each kind. `protocols` is the map of
    the listeners' security protocols.
    """

    two: list[str]
    bootstrap: str
    replicas: list[list[int]]
    directories: dict[int, Path]
    victims: list[Victim]
    protocols: str


def rotated(one: int, two: int, three: int) -> list[list[int]]:
    """Return replicas on three brokers for each partition, so that each broker leads as many as the others."""
    return [[one, two, three], [two, three, one], [three, one, two]] * (PARTITIONS // 3)


def victim_of_ours(node: BrokerProcess, node_id: int) -> Victim:
    return Victim(f"broker {node_id} of pykbroker", node.kill, node.stop, node.start, lambda: node.pid)


@pytest.fixture(scope="module")
def ours_among_kafkas(kafka_nodes: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    """Yield three nodes of Kafka, which are the controllers, with a broker of pykbroker."""
    work = tmp_path_factory.mktemp("ours")
    ours = our_broker(work, OURS, kafka_nodes.controllers)

    def start() -> None:
        kafka_nodes.start(1)
        kafka_nodes.wait_serving(1)

    theirs = [f"{host}:{port}" for host, port in kafka_nodes.bootstrap]
    directories = {OURS: work / "data", **{node_id: kafka_nodes.directory(node_id) for node_id in (1, 2)}}
    victims = [
        victim_of_ours(ours, OURS),
        Victim(
            "broker 1 of Kafka",
            lambda: kafka_nodes.kill(1),
            lambda: kafka_nodes.nodes[1].stop(),
            start,
            lambda: kafka_nodes.nodes[1].pid,
        ),
    ]
    try:
        bootstrap, replicas = ",".join((*theirs, ours.address)), rotated(OURS, 1, 2)
        yield Mixed([theirs[0], ours.address], bootstrap, replicas, directories, victims, OPEN)
        assert ours.stop() == 0
    finally:
        ours.kill()


@pytest.fixture(scope="module")
def secured(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    """Yield two nodes of pykbroker, one of which is the controller, with a broker of Kafka."""
    cluster = SecuredCluster(tmp_path_factory.mktemp("kafkas"), kafka_jars)
    try:
        yield cluster
        cluster.theirs.stop(30)
        assert [cluster.ours[node_id].stop() for node_id in (2, 1)] == [0, 0]
        assert "canary" not in cluster.output()
    finally:
        cluster.kill()


@pytest.fixture(scope="module")
def kafkas_among_ours(secured: SecuredCluster) -> Mixed:
    """Return the secured cluster, for clients that may do everything without a log-in."""
    ours = secured.ours[2]
    victims = [
        victim_of_ours(ours, 2),
        Victim(
            f"broker {THEIRS} of Kafka",
            lambda: secured.theirs.kill(),
            lambda: secured.theirs.stop(30),
            secured.start_theirs,
            lambda: secured.theirs.pid,
        ),
    ]
    addresses = [secured.address(node_id) for node_id in (1, 2, THEIRS)]
    directories = {node_id: secured.directory(node_id) for node_id in (1, 2, THEIRS)}
    two = [addresses[0], addresses[-1]]
    return Mixed(two, ",".join(addresses), rotated(1, 2, THEIRS), directories, victims, PROTOCOLS)


@pytest.fixture(params=["ours_among_kafkas", "kafkas_among_ours"])
def mixed(request: pytest.FixtureRequest) -> Mixed:
    """Return a cluster of each kind."""
    cluster: Mixed = request.getfixturevalue(request.param)
    return cluster


def test_clients_use_the_partitions_of_both_kinds_of_brokers_in_groups_and_transactions(mixed: Mixed) -> None:
    for place, bootstrap in enumerate(mixed.two):
        admin = AdminClient({"bootstrap.servers": bootstrap})
        topics = [f"in{place}", f"out{place}"]
        leaders = [[replicas[0]] for replicas in mixed.replicas]
        new_topics = [NewTopic(name, PARTITIONS, replica_assignment=leaders) for name in topics]
        for future in admin.create_topics(new_topics).values():
            future.result(20)
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
        for number in range(MESSAGES):
            producer.produce(topics[0], b"%d" % number, partition=number % PARTITIONS)
        assert producer.flush(20) == 0
        for group in ("a", "b", "c"):  # each of another partition of __consumer_offsets
            values = consumed(bootstrap, topics[0], f"{group}{place}", MESSAGES)
            assert sorted(map(int, values)) == list(range(MESSAGES))
        for name in ("a", "b", "c"):
            copy_in_transactions(bootstrap, name, *topics)
        copies = consumed(bootstrap, topics[1], f"copies{place}", 3 * MESSAGES, isolation_level="read_committed")
        assert sorted(copies) == sorted(
            b"%s %d" % (name, number) for name in (b"a", b"b", b"c") for number in range(MESSAGES)
        )
        for future in admin.delete_topics(topics).values():
            future.result(20)


def test_sessions_between_nodes_of_both_kinds_are_renewed(secured: SecuredCluster) -> None:
    level = AlterConfigsResource(BROKER_LOGGER_RESOURCE, "2", [AlterableConfig("pykbroker.client.login", 0, "DEBUG")])
    with RawClient(secured.address(2)) as client:
        client.call(IncrementalAlterConfigsResponse, IncrementalAlterConfigsRequest([level]), 1)
    followed = NewTopic("followed", len(NODES), replica_assignment=rotated(*NODES)[: len(NODES)])
    admin = AdminClient({"bootstrap.servers": secured.address(1)})
    admin.create_topics([followed])["followed"].result(20)
    lines = [f"{secured.secure_address(other)}: logged in again" for other in (1, THEIRS)]
    eventually(lambda: all(line in secured.ours[2].output() for line in lines))


def test_a_user_has_no_more_rights_than_its_own_whichever_broker_forwards_its_request(secured: SecuredCluster) -> None:
    for node_id in NODES:
        topic = f"of-alice{node_id}"
        new_topic = NewTopic(topic, len(NODES), replica_assignment=[[each] for each in NODES])
        of_alice, of_node = (AdminClient(secured.client(user, node_id)) for user in (ALICE, USERS[0]))
        (denied,) = of_alice.create_topics([new_topic]).values()
        with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
            denied.result(20)
        acl = AclBinding(
            *(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{ALICE}", "*"),
            *(AclOperation.ALL, AclPermissionType.ALLOW),
        )
        for future in of_node.create_acls([acl]).values():
            future.result(20)
        (created,) = of_alice.create_topics([new_topic]).values()
        created.result(20)
        producer = Producer({**secured.client(ALICE, node_id), "acks": "all"})
        for partition in range(len(NODES)):
            producer.produce(topic, b"value", partition=partition)
        assert producer.flush(20) == 0


Fault = Callable[[Load], str]
"""A fault that has ended when the function returns. The text says what has happened."""


def kill(victim: Victim, load: Load) -> str:
    """Kill a broker, and start it again once its partitions are served by others."""
    victim.kill()
    load.wait_served()
    victim.start()
    return f"{victim.name} killed and started"


def stop(victim: Victim, load: Load) -> str:
    """Stop a broker in order, and start it again once its partitions are served by others."""
    victim.stop()
    load.wait_served()
    victim.start()
    return f"{victim.name} stopped and started"


def pause(victim: Victim, load: Load) -> str:
    """Stop a broker's process until its partitions are served by others."""
    os.kill(victim.pid(), signal.SIGSTOP)
    try:
        load.wait_served()
    finally:
        os.kill(victim.pid(), signal.SIGCONT)
    return f"{victim.name} paused"


def answer(address: str, listeners: str, protocols: str) -> tuple[int, str]:
    """Return the code and the message for a change of a broker's listeners, which is not made.

    The message lacks the addresses that the broker has, and the names of Java's classes.
    """
    with RawClient(address) as client:
        (node_id,) = (
            broker.node_id
            for broker in client.call(MetadataResponse, MetadataRequest(topics=[]), 12).brokers
            if f"{broker.host}:{broker.port}" == address
        )
        asked = DescribeConfigsResource(BROKER_RESOURCE, str(node_id), ["listeners"])
        (described,) = client.call(DescribeConfigsResponse, DescribeConfigsRequest([asked]), 4).results
        own = described.configs[0].value or ""
        changes = {"listeners": listeners.replace("OWN", own), "listener.security.protocol.map": protocols}
        configs = [AlterableConfig(name, 0, text) for name, text in changes.items()]
        request = IncrementalAlterConfigsRequest(
            [AlterConfigsResource(BROKER_RESOURCE, str(node_id), configs)], validate_only=True
        )
        (result,) = client.call(IncrementalAlterConfigsResponse, request, 1).responses
    message = result.error_message or ""
    for of_java in (r"Invalid value org\S+: (.*) for configuration .*", r"requirement failed: (.*)"):
        message = re.sub(of_java, r"\1", message)
    return result.error_code, re.sub(r"ListenerName\((\w+)\)", r"\1", message).replace(own.replace(",", ", "), "OWN")


def test_both_kinds_of_brokers_answer_changes_of_listeners_alike(mixed: Mixed) -> None:
    known = mixed.protocols
    for change in (
        ("OWN,EXT://:0", f"{known},EXT:PLAINTEXT"),
        ("OWN,ext://[::1]:0", f"{known},Ext:plaintext"),
        ("OWN,EXT://:0", known),
        ("OWN", known.replace("PLAINTEXT:PLAINTEXT", "A:PLAINTEXT", 1)),
        ("OWN", known.replace("PLAINTEXT:PLAINTEXT", "PLAINTEXT:SSL", 1)),
        ("", known),
        ("OWN,", known),
        ("OWN,EXT", known),
        ("OWN,EXT://x", f"{known},EXT:PLAINTEXT"),
        ("OWN,PLAINTEXT://:0", known),
        *(
            (f"OWN,EXT://{one}:1,NEW://{other}:1", f"{known},EXT:PLAINTEXT,NEW:PLAINTEXT")
            for one, other in (("", ""), ("", "127.0.0.1"), ("127.0.0.1", "127.0.0.2"), ("127.0.0.1", "[::1]"))
        ),
    ):
        one, other = (answer(address, *change) for address in mixed.two)
        assert one == other, change


def test_brokers_of_both_kinds_lead_and_follow_and_a_kill_of_either_loses_nothing(mixed: Mixed) -> None:
    kills: list[Fault] = [partial(kill, victim) for victim in mixed.victims]
    rarer: list[Fault] = [partial(fault, victim) for victim in mixed.victims for fault in (stop, pause)]
    with Load(mixed.bootstrap, mixed.replicas, has_kafka=True) as load:
        for fault in faults_of_soak(kills, rarer, Random("mixed cluster")):
            wait_in_sync(mixed.bootstrap)
            prefer(mixed.bootstrap, load.source)
            logger.info("%s", fault(load))
            load.wait_served()
        wait_in_sync(mixed.bootstrap)
        judge(load)
        wait_in_sync(mixed.bootstrap)
        judge_replicas(mixed.directories, load)
    admin = AdminClient({"bootstrap.servers": mixed.bootstrap})
    for future in admin.delete_topics([load.source, load.copy]).values():
        future.result(20)
