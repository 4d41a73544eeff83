"""The metrics of replication and of the controller of three brokers, of which one is killed.

The brokers know each other by certificates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.request import urlopen

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.keystores import Keystores
from tests.interop.our_cluster import OurCluster
from tests.interop.scenarios import eventually, eventually_equal

PATIENCE_S = 30
MANAGER, CONTROLLER = "server_replicamanager_", "controller_kafkacontroller_"
ACTIVE = f"{CONTROLLER}activecontrollercount"

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[OurCluster]:
    monkeypatch.setenv("PYKBROKER_CONSOLE", "127.0.0.1:0")
    work = tmp_path_factory.mktemp("cluster")
    running = OurCluster(work, network=Keystores(work))
    try:
        yield running
    finally:
        running.kill()


def scrape(cluster: OurCluster, broker: int) -> str:
    """Return the text of all metrics of a broker."""
    address = re.findall(r"metrics on (http://[\d.:]+/metrics)", cluster.nodes[broker].output())[-1]
    with urlopen(address, timeout=PATIENCE_S) as answer:
        text: str = answer.read().decode()
    return text


def sums(cluster: OurCluster, name: str, *brokers: int) -> dict[str, int]:
    """Return the sums of a metric over these brokers by topic."""
    found: dict[str, int] = {}
    for broker in brokers:
        for topic, value in re.findall(rf'^{name}{{topic="(\w+)".*}} (\d+)$', scrape(cluster, broker), re.MULTILINE):
            found[topic] = found.get(topic, 0) + int(value)
    return found


def metrics(cluster: OurCluster, broker: int) -> dict[str, float]:
    """Return the metrics of a broker that have no labels, and the largest lag as `maxlag`."""
    text = scrape(cluster, broker)
    found = re.findall(r"^kafka_(\w+) ([\d.e+]+)$", text, re.MULTILINE)
    (lag,) = re.findall(r'^kafka_server_replicafetchermanager_maxlag\{clientId="Replica"\} (\d+)$', text, re.MULTILINE)
    return {**{name: float(value) for name, value in found}, "maxlag": float(lag)}


def of(cluster: OurCluster, prefix: str, *names: str) -> list[float]:
    """Return the sums of metrics over the brokers that run. Metrics of the controller are only on broker 1."""
    running = (1, 2) if prefix == MANAGER else (1,)
    return [sum(metrics(cluster, broker)[prefix + name] for broker in running) for name in names]


def test_a_killed_broker_changes_the_metrics_and_its_return_changes_them_back(cluster: OurCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    min_isr = {"min.insync.replicas": "2"}
    every = [NewTopic("three", 3, replica_assignment=[[1, 2, 3], [2, 3, 1], [3, 1, 2]], config=min_isr)]
    every += [NewTopic("two", 1, replica_assignment=[[1, 3]], config=min_isr)]
    every += [NewTopic("alone", 2, replica_assignment=[[3], [1]])]
    for created in admin.create_topics(every).values():
        created.result(PATIENCE_S)
    states = ("underreplicatedpartitions", "underminisrpartitioncount", "atminisrpartitioncount")
    duties = (
        *("activecontrollercount", "activebrokercount", "fencedbrokercount"),
        *("offlinepartitionscount", "preferredreplicaimbalancecount"),
    )
    eventually(lambda: of(cluster, MANAGER, *states) == [0, 0, 2])  # "two" and one partition of "alone"
    assert of(cluster, CONTROLLER, *duties) == [1, 3, 0, 0, 0]
    eventually(lambda: [metrics(cluster, broker)[ACTIVE] for broker in (1, 2, 3)] == [1, 0, 0])
    partitions = {"three": 3, "two": 1, "alone": 2}
    eventually_equal(lambda: sums(cluster, "kafka_topic_partitions", 1, 2, 3), partitions)
    assert sums(cluster, "kafka_topic_partition_replicas", 1, 2, 3) == {"three": 9, "two": 2, "alone": 2}
    assert f"{CONTROLLER}activebrokercount" not in metrics(cluster, 2)
    cluster.nodes[3].kill()
    eventually(lambda: of(cluster, CONTROLLER, *duties) == [1, 2, 1, 1, 2])
    eventually(lambda: of(cluster, MANAGER, *states) == [4, 1, 4])
    assert sums(cluster, "kafka_topic_partitions", 1, 2) == partitions, "the controller reports the leaderless one"
    in_sync = sums(cluster, "kafka_topic_partition_in_sync_replica", 1, 2)
    assert in_sync == {"three": 6, "two": 1, "alone": 1}
    expands = of(cluster, MANAGER, "isrexpands_total")[0]
    cluster.nodes[3].restart()
    eventually(lambda: of(cluster, MANAGER, "underreplicatedpartitions") == [0])
    assert of(cluster, MANAGER, "isrexpands_total")[0] == expands + 4
    eventually_equal(lambda: of(cluster, CONTROLLER, "fencedbrokercount", "offlinepartitionscount"), [0, 0])
    eventually(lambda: [metrics(cluster, broker)["maxlag"] for broker in (1, 2, 3)] == [0, 0, 0])
