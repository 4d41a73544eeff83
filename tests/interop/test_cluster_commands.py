"""`pykbroker brokers`, `topics reassign` and `topics elect` against three brokers of ours and of Apache Kafka."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import Result
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from pykbroker.testing import RunningCluster, running_cluster
from tests.interop.kafka_cluster import KafkaCluster
from tests.interop.one_process import run_here
from tests.interop.scenarios import eventually, eventually_equal

PATIENCE_S = 30
RECORD_BYTES = 100_000

pytestmark = pytest.mark.timeout(180)


class Brokers(NamedTuple):
    """Three brokers that commands are run against, and ways to kill one and to start it again."""

    bootstrap: str
    kill: Callable[[int], None]
    restart: Callable[[int], None]

    def run(self, *words: object, status: int = 0) -> Result:
        """Run `pykbroker ...` in this process, and check its exit code."""
        result = run_here(*words, "-b", self.bootstrap)
        assert result.exit_code == status, result.output
        return result

    def rows(self, *words: object) -> list[dict[str, Any]]:
        """Return the JSON document that a command prints."""
        return json.loads(self.run(*words, "--json").stdout)

    def topic(self, replicas: list[list[int]], **configs: str) -> str:
        """Create a topic whose partitions have these replicas."""
        name = f"t-{uuid.uuid4().hex[:8]}"
        new = NewTopic(name, len(replicas), replica_assignment=replicas, config=configs)
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([new])[name].result(PATIENCE_S)
        return name

    def fill(self, topic: str, count: int) -> None:
        """Send records to partition 0 with acks=all."""
        producer, errors = Producer({"bootstrap.servers": self.bootstrap, "acks": "all"}), list[object]()
        for _ in range(count):
            producer.produce(topic, bytes(RECORD_BYTES), partition=0, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(PATIENCE_S) == 0
        assert errors == [None] * count

    def partitions(self, topic: str) -> dict[int, tuple[int, list[int], set[int]]]:
        """Return the leader, the replicas and the ISR of each partition."""
        (found,) = self.rows("topics", "describe", topic)
        return {one["partition"]: (one["leader"], one["replicas"], set(one["isr"])) for one in found["partitions"]}

    def wait_for_replicas(self, topic: str, *expected: list[int]) -> None:
        """Wait until the broker that is asked has the replicas of a reassignment that the controller has ended."""
        eventually_equal(lambda: [one[1] for one in self.partitions(topic).values()], list(expected))


def of_kafka(nodes: KafkaCluster) -> Brokers:
    def restart(broker: int) -> None:
        nodes.start(broker)
        nodes.wait_serving(broker)

    return Brokers(",".join(f"{host}:{port}" for host, port in nodes.bootstrap), nodes.kill, restart)


def of_ours(cluster: RunningCluster) -> Brokers:
    return Brokers(cluster.bootstrap, cluster.kill, cluster.restart)


@pytest.fixture(scope="module", params=["pykbroker", "kafka"])
def brokers(request: pytest.FixtureRequest) -> Iterator[Brokers]:
    """Return a cluster of each kind."""
    if request.param == "kafka":
        yield of_kafka(request.getfixturevalue("kafka_nodes"))
    else:
        with running_cluster(3) as cluster:
            yield of_ours(cluster)


def test_brokers_are_listed_with_their_partitions(brokers: Brokers) -> None:
    before = {row["broker"]: row for row in brokers.rows("brokers")}
    brokers.topic([[1, 2], [2, 3], [3, 1]])

    def changes(name: str) -> list[int]:
        return [row[name] - before[row["broker"]][name] for row in brokers.rows("brokers")]

    eventually_equal(lambda: [changes("leads"), changes("follows")], [[1, 1, 1]] * 2)
    found = brokers.rows("brokers")
    assert [row["broker"] for row in found] == [1, 2, 3]
    assert [row["address"] for row in found] == brokers.bootstrap.split(",")
    assert [row["state"] for row in found] == ["unfenced"] * 3
    assert [row["controller"] for row in found].count(True) == 1
    assert brokers.run("brokers").stdout.split("\n")[0].split() == [
        *("BROKER", "ADDRESS", "RACK", "STATE", "CONTROLLER", "LEADS", "FOLLOWS"),
        *("UNDER", "REPLICATED", "NOT", "IN", "ISR"),
    ]


def test_a_topic_is_spread_over_brokers_and_a_partition_takes_them_in_order(brokers: Brokers) -> None:
    topic = brokers.topic([[1], [1], [1]])
    brokers.fill(topic, 3)
    plan = brokers.rows("topics", "reassign", topic, "--to", "1,2,3", "--dry-run")
    assert [(row["partition"], row["replicas"], row["new_replicas"]) for row in plan] == [
        (0, [1], [1, 2, 3]),
        (1, [1], [2, 3, 1]),
        (2, [1], [3, 1, 2]),
    ]
    assert brokers.partitions(topic)[1][1] == [1]
    done = brokers.run("topics", "reassign", topic, "--to", "1,2,3", "--yes", "--wait")
    assert "Began to reassign 3 partitions." in done.stdout
    assert done.stderr.endswith("No partition is being reassigned any more.\n")
    brokers.wait_for_replicas(topic, [1, 2, 3], [2, 3, 1], [3, 1, 2])
    brokers.run("topics", "reassign", f"{topic}:2", "--to", "2,1", "--yes", "--wait")
    brokers.wait_for_replicas(topic, [1, 2, 3], [2, 3, 1], [2, 1])
    again = brokers.run("topics", "reassign", f"{topic}:2", "--to", "2,1", "--yes")
    assert "All partitions have these replicas already: nothing is reassigned." in again.stderr


def test_partitions_move_away_from_a_broker(brokers: Brokers) -> None:
    topic = brokers.topic([[2, 1], [2, 3], [1, 3]])
    brokers.fill(topic, 3)
    brokers.run("topics", "reassign", topic, "--away-from", 2, "--yes", "--wait")
    brokers.wait_for_replicas(topic, [3, 1], [1, 3], [1, 3])
    refused = brokers.run("topics", "reassign", topic, "--away-from", 1, "--away-from", 3, "--yes", status=1)
    assert "no unfenced broker can take over the replica of broker" in refused.stderr
    unknown = brokers.run("topics", "reassign", topic, "--away-from", 99, "--yes", status=1)
    assert "--away-from 99: there is no broker 99: the cluster has 1, 2, 3" in unknown.stderr


def test_a_file_of_kafkas_tool_is_carried_out(brokers: Brokers, tmp_path: Path) -> None:
    topic, file = brokers.topic([[1]]), tmp_path / "plan.json"
    entry = {"topic": topic, "partition": 0, "replicas": [3, 2], "log_dirs": ["any", "any"]}
    file.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    brokers.run("topics", "reassign", "--from-file", file, "--yes", "--wait")
    eventually_equal(lambda: brokers.partitions(topic)[0][1:], ([3, 2], {3, 2}))


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (("{topic}", "--to", "1,9"), 1, "{topic}-0: there is no broker 9: the cluster has 1, 2, 3"),
        (("{topic}:7", "--to", "1"), 1, "Topic '{topic}' has no partition 7 (UNKNOWN_TOPIC_OR_PARTITION)"),
        (("absent", "--to", "1"), 1, "Topic 'absent' (UNKNOWN_TOPIC_OR_PARTITION)"),
        (("{topic}", "--to", "1,1"), 2, "names broker 1 twice"),
        (("--to", "1"), 2, "choose the partitions: name topics such as orders or orders:0, or write --all-topics"),
        (("{topic}", "--to", "1", "--cancel"), 2, "choose one of --to, --away-from, --from-file and --cancel"),
        (("{topic}", "--to", "1", "--dry-run", "--yes"), 2, "leave out --yes and --wait"),
    ],
)
def test_what_cannot_be_reassigned_is_refused_in_a_sentence(
    brokers: Brokers, words: tuple[str, ...], status: int, sentence: str
) -> None:
    topic = brokers.topic([[1]])
    refused = brokers.run("topics", "reassign", *(word.format(topic=topic) for word in words), status=status)
    assert sentence.format(topic=topic) in refused.stderr


# ---- an outage, one for all tests that follow


class Outage:
    """The death of broker 3, which has led the first partition of `topic` and that of `alone`."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers, self._is_over = brokers, False
        self.topic, self.alone = brokers.topic([[3, 1, 2], [1, 2, 3]]), brokers.topic([[3]])
        brokers.kill(3)

    def end(self) -> None:
        """Start the broker again, once."""
        if not self._is_over:
            self._is_over = True
            self.brokers.restart(3)


@pytest.fixture(scope="module")
def outage(brokers: Brokers) -> Iterator[Outage]:
    """Return an outage once the broker is fenced."""
    begun = Outage(brokers)
    try:
        eventually(lambda: brokers.rows("brokers")[2]["state"] == "fenced")
        yield begun
    finally:
        begun.end()


def test_a_reassignment_to_a_dead_broker_stays_in_progress_until_it_is_cancelled(outage: Outage) -> None:
    brokers = outage.brokers
    topic = brokers.topic([[1], [1]])
    brokers.fill(topic, 10)
    began = brokers.run("topics", "reassign", f"{topic}:0", "--to", "3,2", "--yes")
    assert began.stdout.endswith("Began to reassign 1 partition.\n")
    eventually(lambda: brokers.rows("topics", "reassign", topic)[0]["in_sync"] == [2])
    (row,) = brokers.rows("topics", "reassign", topic)
    assert (row["partition"], row["adding"], row["removing"], row["bytes_left"]) == (0, [2, 3], [1], None)
    cancelled = brokers.run("topics", "reassign", topic, "--cancel")
    assert cancelled.stdout == "Cancelled the reassignment of 1 partition.\n"
    assert brokers.rows("topics", "reassign", topic) == []
    eventually(lambda: brokers.partitions(topic)[0][1] == [1])
    again = brokers.run("topics", "reassign", topic, "--cancel")
    assert again.stdout == "No reassignment of these partitions is in progress.\n"


def test_a_killed_broker_is_fenced_and_gets_its_leaderships_back_by_an_election(outage: Outage) -> None:
    brokers, topic = outage.brokers, outage.topic
    assert brokers.partitions(topic)[0][0] in (1, 2)
    rows = brokers.rows("brokers")
    assert rows[2]["leads"] == 0
    assert rows[2]["not_in_isr"] >= 2
    assert sum(row["under_replicated"] for row in rows[:2]) >= 2
    refused = brokers.run("topics", "elect", topic, status=1)
    assert f"{topic}-0: the preferred replica is not in the ISR: start its broker" in refused.stderr
    dead = brokers.run("topics", "elect", outage.alone, "--unclean", "--yes", status=1)
    assert f"{outage.alone}-0: no replica is alive: start one of its brokers" in dead.stderr
    outage.end()
    eventually(lambda: brokers.partitions(topic)[0][2] == {1, 2, 3})
    if brokers.partitions(topic)[0][0] != 3:
        elected = brokers.run("topics", "elect", topic)
        assert elected.stdout.startswith(f"Elected the preferred leader of {topic}-0.\n")
        eventually(lambda: brokers.partitions(topic)[0][0] == 3)
    assert brokers.run("topics", "elect", f"{topic}:0").stdout == "1 of the partitions did not need an election.\n"
    brokers.run("topics", "elect", "--all-topics")
    assert "choose the partitions" in brokers.run("topics", "elect", status=2).stderr
