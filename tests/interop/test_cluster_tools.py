"""Apache Kafka's command line tools for clusters, against three brokers of pykbroker.

The expected texts are those of the tools of Kafka 4.3.1 for a cluster of Kafka 4.3.1.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.java_tools import TOOLS, ToolsJvm, agree, lines_of
from tests.interop.kafka_node import java as java_command
from tests.interop.our_cluster import SETTINGS, OurCluster

pytestmark = pytest.mark.timeout(180)
DONE_S_MAX = 40
VERIFIED = r"max lag is 0 for partition verified-\d at offset 100 among 3 partitions"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurCluster]:
    running = OurCluster(tmp_path_factory.mktemp("cluster"), 3, (*SETTINGS, "min.insync.replicas=1"))
    try:
        yield running
        assert running.stop() == [0, 0, 0]
    finally:
        running.kill()


@pytest.fixture(scope="module")
def tools(java: str, kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolsJvm]:
    with ToolsJvm(java, kafka_jars, tmp_path_factory.mktemp("tools")) as jvm:
        yield jvm


def check(output: str, expected: str) -> None:
    """Compare the output of a tool, in which "…" stands for any text."""
    assert agree(lines_of(expected), lines_of(output)), f"{output}\ninstead of\n{expected}"


def create(cluster: OurCluster, topic: str, *replicas: list[int]) -> AdminClient:
    """Create a topic, a partition for each list of replicas, and return a client."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, len(replicas), replica_assignment=list(replicas))])[topic].result(10)
    return admin


def wait_isr(admin: AdminClient, topic: str, isr: set[int]) -> None:
    """Wait until these are the members of the ISR of the topic's only partition."""
    deadline = time.monotonic() + DONE_S_MAX
    while set(found := admin.list_topics(topic, 10).topics[topic].partitions[0].isrs) != isr:
        assert time.monotonic() < deadline, f"the ISR is {found}, not {isr}"
        time.sleep(0.05)


def test_the_quorum_and_features_are_described(cluster: OurCluster, tools: ToolsJvm) -> None:
    place = ["--bootstrap-server", cluster.bootstrap]
    status = tools.run("kafka-metadata-quorum", [*place, "describe", "--status"])
    check(
        status,
        f"""ClusterId: {cluster.nodes[1].announced.cluster_id}
LeaderId: 1
LeaderEpoch: 1
HighWatermark: …
MaxFollowerLag: …
MaxFollowerLagTimeMs: …
CurrentVoters: [{{"id": 1, "directoryId": "…", "endpoints": ["CONTROLLER://{cluster.controller}"]}}]
CurrentObservers: [{{"id": 2, "directoryId": "…"}}, {{"id": 3, "directoryId": "…"}}]
exit 0""",
    )
    check(
        tools.run("kafka-metadata-quorum", [*place, "describe", "--replication"]),
        """NodeId DirectoryId LogEndOffset Lag LastFetchTimestamp LastCaughtUpTimestamp Status
1 … Leader
2 … Observer
3 … Observer
exit 0""",
    )
    features = tools.run("kafka-features", [*place, "describe"])
    assert "Feature: metadata.version SupportedMinVersion: 3.3-IV3" in " ".join(features.split())


def test_the_cluster_tool_names_the_cluster_and_its_brokers_and_removes_one(
    cluster: OurCluster, tools: ToolsJvm
) -> None:
    place = ["--bootstrap-server", cluster.bootstrap]
    check(
        tools.run("kafka-cluster", ["cluster-id", *place]),
        f"Cluster ID: {cluster.nodes[1].announced.cluster_id}\nexit 0",
    )
    fourth = cluster.start(4)
    row = "{} 127.0.0.1 {} null {} broker"
    rows = [row.format(node_id, node.port, "unfenced") for node_id, node in cluster.nodes.items()]
    title, ended = "ID HOST PORT RACK STATE ENDPOINT_TYPE", "exit 0"
    check(tools.run("kafka-cluster", ["list-endpoints", *place]), "\n".join([title, *rows, ended]))
    cluster.nodes.pop(4)
    assert fourth.stop() == 0
    check(tools.run("kafka-cluster", ["list-endpoints", *place]), "\n".join([title, *rows[:3], ended]))
    rows[3] = row.format(4, fourth.port, "fenced")
    fenced = tools.run("kafka-cluster", ["list-endpoints", "--include-fenced-brokers", *place])
    check(fenced, "\n".join([title, *rows, ended]))
    check(tools.run("kafka-cluster", ["unregister", "--id", "4", *place]), "Broker 4 is no longer registered.\nexit 0")
    fenced = tools.run("kafka-cluster", ["list-endpoints", "--include-fenced-brokers", *place])
    check(fenced, "\n".join([title, *rows[:3], ended]))


def test_a_reassignment_is_proposed_executed_and_verified(cluster: OurCluster, tools: ToolsJvm, tmp_path: Path) -> None:
    admin = create(cluster, "moved", [1, 2], [2, 1])
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(100):
        producer.produce("moved", b"%d" % number, partition=number % 2)
    assert producer.flush(20) == 0
    place = ["--bootstrap-server", cluster.bootstrap]
    topics, plan = tmp_path / "topics.json", tmp_path / "plan.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "moved"}]}))
    proposal = tools.run(
        "kafka-reassign-partitions",
        [*place, "--generate", "--broker-list", "2,3", "--topics-to-move-json-file", str(topics)],
    )
    proposed = json.loads(proposal.split("Proposed partition reassignment configuration")[1].split("exit")[0])
    assert [sorted(one["replicas"]) for one in proposed["partitions"]] == [[2, 3], [2, 3]]
    plan.write_text(json.dumps(proposed))
    of_plan = [*place, "--reassignment-json-file", str(plan)]
    assert "Successfully started partition reassignments for moved-0,moved-1\nexit 0" in tools.run(
        "kafka-reassign-partitions", [*of_plan, "--execute"]
    )
    deadline = time.monotonic() + DONE_S_MAX
    while "is still in progress" in (output := tools.run("kafka-reassign-partitions", [*of_plan, "--verify"])):
        assert time.monotonic() < deadline, output
    check(
        output,
        """Status of partition reassignment:
Reassignment of partition moved-0 is completed.
Reassignment of partition moved-1 is completed.
Clearing broker-level throttles on brokers 1,2,3
Clearing topic-level throttles on topic moved
exit 0""",
    )
    found = admin.list_topics("moved", 10).topics["moved"].partitions.values()
    assert [set(one.replicas) for one in found] == [set(one.isrs) for one in found] == [{2, 3}, {2, 3}]


def test_leaders_are_elected_by_preference_and_uncleanly(cluster: OurCluster, tools: ToolsJvm) -> None:
    admin = create(cluster, "elected", [2, 3])
    place = ["--bootstrap-server", cluster.bootstrap, "--topic", "elected", "--partition", "0", "--election-type"]
    assert cluster.nodes[3].stop() == 0
    wait_isr(admin, "elected", {2})
    assert cluster.nodes[2].stop() == 0
    cluster.nodes[3].start()
    refused = tools.run("kafka-leader-election", [*place, "preferred"])
    assert "PREFERRED_LEADER_NOT_AVAILABLE" in refused or "preferred leader" in refused
    check(
        tools.run("kafka-leader-election", [*place, "unclean"]),
        "Successfully completed leader election (UNCLEAN) for partitions elected-0\nexit 0",
    )
    cluster.nodes[2].start()
    wait_isr(admin, "elected", {2, 3})
    check(
        tools.run("kafka-leader-election", [*place, "preferred"]),
        "Successfully completed leader election (PREFERRED) for partitions elected-0\nexit 0",
    )
    assert admin.list_topics("elected", 10).topics["elected"].partitions[0].leader == 2


def test_replica_verification_finds_all_replicas_equal(cluster: OurCluster, kafka_jars: Path) -> None:
    """The tool never ends, so that it has a JVM of its own."""
    create(cluster, "verified", [1, 2, 3], [2, 3, 1], [3, 1, 2])
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(300):
        producer.produce("verified", b"%d" % number, partition=number % 3)
    assert producer.flush(20) == 0
    arguments = f"--broker-list {cluster.bootstrap} --topics-include verified --time -2 --report-interval-ms 100"
    command = java_command(kafka_jars, f"{TOOLS}ReplicaVerificationTool", *arguments.split())
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as tool:
        assert tool.stdout is not None
        patience = threading.Timer(DONE_S_MAX, tool.kill)
        patience.start()
        lines: list[str] = []
        for line in tool.stdout:
            lines.append(line)
            if re.search(VERIFIED, line):
                break
        patience.cancel()
        tool.kill()
    assert re.search(VERIFIED, lines[-1]), "".join(lines)
    assert all("max lag" in line or "verification process is started" in line for line in lines), "".join(lines)
