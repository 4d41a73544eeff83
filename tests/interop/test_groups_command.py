"""`pykbroker groups` against this broker and against three nodes of Apache Kafka, compared with Kafka's own tool."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka as ck
import pytest
from click.testing import Result
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.group_actors import OF_CLASSIC, OF_CONSUMER, PATIENCE_S, consumer, eventually, poll
from tests.interop.java_tools import ToolsJvm
from tests.interop.leaving import leave
from tests.interop.one_process import run_here

HOUR_MS = 3_600_000
PARTITIONS = 6
COMMITTED = {0: 5, 1: 2, 3: 0}
"""The committed offset of each partition of every group. A partition has 10 records, one second apart."""
PROTOCOLS: dict[str, Mapping[str, str | int]] = {"classic": OF_CLASSIC, "consumer": OF_CONSUMER}

pytestmark = pytest.mark.timeout(300)


class GroupsOfCluster(NamedTuple):
    """The groups of a cluster: an active and an empty group for each protocol, and a group that never had members."""

    bootstrap: str
    topic: str
    begun_ms: int
    active: Mapping[str, str]
    empty: Mapping[str, str]
    simple: str

    def run(self, *words: str) -> Result:
        """Run `pykbroker groups ...` in this process."""
        return run_here("groups", *words, "-b", self.bootstrap)

    def rows(self, *words: str) -> list[dict[str, Any]]:
        ended = self.run(*words, "--json")
        assert ended.exit_code == 0, ended.stderr
        return json.loads(ended.stdout)

    def own(self, lines: Iterable[list[str]]) -> list[list[str]]:
        """Return the lines that begin with one of these groups, sorted. Other tests have groups in the same cluster."""
        groups = {*self.active.values(), *self.empty.values(), self.simple}
        return sorted(line for line in lines if line[0] in groups)

    def offsets(self, group: str) -> dict[int, int | None]:
        return {row["partition"]: row["current_offset"] for row in self.rows("describe", group)}


@pytest.fixture(scope="module", params=["pykbroker", "kafka"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Return the addresses of the brokers."""
    if request.param == "kafka":
        nodes = request.getfixturevalue("kafka_nodes").bootstrap
        return ",".join(f"{host}:{port}" for host, port in nodes)
    return request.getfixturevalue("shared_broker").address


@pytest.fixture(scope="module")
def cluster(bootstrap: str) -> Iterator[GroupsOfCluster]:
    run = uuid.uuid4().hex[:8]
    begun_ms = int(datetime.now(UTC).timestamp()) * 1000 - HOUR_MS
    topic = f"g-{run}"
    fill(bootstrap, topic, begun_ms)
    empty = {protocol: f"left-{protocol}-{run}" for protocol in PROTOCOLS}
    for protocol, group in empty.items():
        leave(joined(bootstrap, topic, group, PROTOCOLS[protocol]))
    simple = consumer(bootstrap, f"simple-{run}", dict(OF_CLASSIC))
    commit(simple, topic)
    simple.close()
    active = {protocol: f"busy-{protocol}-{run}" for protocol in PROTOCOLS}
    members = [joined(bootstrap, topic, group, PROTOCOLS[protocol]) for protocol, group in active.items()]
    ended = threading.Event()
    polling = threading.Thread(target=poll, args=(members, ended))
    polling.start()
    yield GroupsOfCluster(bootstrap, topic, begun_ms, active, empty, f"simple-{run}")
    ended.set()
    polling.join()
    for member in members:
        leave(member)


def fill(bootstrap: str, topic: str, begun_ms: int) -> None:
    """Create the topic with 10 records in each partition but the last, which stays empty."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        created.result(PATIENCE_S)
    producer = ck.Producer({"bootstrap.servers": bootstrap})
    for partition in range(PARTITIONS - 1):
        for offset in range(10):
            producer.produce(topic, b"%d" % offset, partition=partition, timestamp=begun_ms + 1000 * offset)
    assert producer.flush(PATIENCE_S) == 0


def joined(bootstrap: str, topic: str, group: str, protocol: Mapping[str, str | int]) -> ck.Consumer:
    """Return the only member of a group, which is assigned all partitions and has committed."""
    member = consumer(bootstrap, group, dict(protocol))
    member.subscribe([topic])
    eventually(lambda: polled(member))
    commit(member, topic)
    return member


def polled(member: ck.Consumer) -> None:
    """Poll once. Raise KafkaException unless the member has all partitions."""
    member.poll(0.05)
    if len(member.assignment()) < PARTITIONS:
        raise ck.KafkaException("the member has no assignment so far")


def commit(member: ck.Consumer, topic: str) -> None:
    places = [ck.TopicPartition(topic, index, offset) for index, offset in COMMITTED.items()]
    eventually(lambda: member.commit(offsets=places, asynchronous=False))


@pytest.fixture
def tool(jvm: ToolsJvm, cluster: GroupsOfCluster) -> Callable[[str], list[list[str]]]:
    """Return a function that runs kafka-consumer-groups, and returns the words of each line of its output."""

    def run(arguments: str) -> list[list[str]]:
        output = jvm.run("kafka-consumer-groups", ["--bootstrap-server", cluster.bootstrap, *arguments.split()])
        return [line.split() for line in output.splitlines() if line.strip()]

    return run


def cells(row: Mapping[str, Any], *columns: str) -> list[str]:
    """Return the cells of a row as Kafka's tool prints them."""
    return ["-" if row[column] is None else str(row[column]) for column in columns]


def test_the_list_agrees_with_kafkas_tool(cluster: GroupsOfCluster, tool: Callable[[str], list[list[str]]]) -> None:
    ours = cluster.rows("list")
    found = {(row["group"], row["type"], row["state"], row["members"]) for row in ours}
    assert found >= {
        (cluster.active["classic"], "Classic", "Stable", 1),
        (cluster.active["consumer"], "Consumer", "Stable", 1),
        (cluster.empty["classic"], "Classic", "Empty", 0),
        (cluster.empty["consumer"], "Consumer", "Empty", 0),
        (cluster.simple, "Classic", "Empty", 0),
    }
    assert cluster.own(tool("--list --state --type")) == cluster.own(
        cells(row, "group", "type", "state") for row in ours
    )
    stable = cluster.rows("list", "--state", "stable", "--type", "consumer")
    assert cluster.own([row["group"]] for row in stable) == [[cluster.active["consumer"]]]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_lags_of_an_active_group_agree_with_kafkas_tool(
    cluster: GroupsOfCluster, tool: Callable[[str], list[list[str]]], protocol: str
) -> None:
    group = cluster.active[protocol]
    ours = cluster.rows("describe", group)
    lags = {row["partition"]: row["lag"] for row in ours}
    assert lags == {**dict.fromkeys(range(PARTITIONS)), **{index: 10 - at for index, at in COMMITTED.items()}}
    columns = ("group", "topic", "partition", "current_offset", "log_end_offset", "lag", "consumer_id", "host")
    theirs = [line for line in tool(f"--describe --group {group}") if line[0] == group]
    assert sorted(theirs) == sorted(cells(row, *columns, "client_id") for row in ours)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_lags_of_an_empty_group_agree_with_kafkas_tool(
    cluster: GroupsOfCluster, tool: Callable[[str], list[list[str]]], protocol: str
) -> None:
    group = cluster.empty[protocol]
    ours = cluster.rows("describe", group)
    columns = ("group", "topic", "partition", "current_offset", "log_end_offset", "lag", "consumer_id", "host")
    theirs = [line for line in tool(f"--describe --group {group}") if line[0] == group]
    assert len(theirs) == len(COMMITTED)
    assert sorted(theirs) == sorted(cells(row, *columns, "client_id") for row in ours)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_members_and_the_state_agree_with_kafkas_tool(
    cluster: GroupsOfCluster, tool: Callable[[str], list[list[str]]], protocol: str
) -> None:
    group = cluster.active[protocol]
    (member,) = cluster.rows("describe", group, "--members")
    columns = ("group", "consumer_id", "host", "client_id", "partitions", "current_epoch")
    (theirs,) = [line for line in tool(f"--describe --group {group} --members --verbose") if line[0] == group]
    assert theirs[:6] == cells(member, *columns)
    assert theirs[7] == cells(member, "target_epoch")[0]
    assert member["current_assignment"] == [f"{cluster.topic}-{index}" for index in range(PARTITIONS)]
    (state,) = cluster.rows("describe", group, "--state")
    (theirs,) = [line for line in tool(f"--describe --group {group} --state --verbose") if line[0] == group]
    facts = ("assignment_strategy", "state", "group_epoch", "target_assignment_epoch", "members")
    assert theirs[-5:] == cells(state, *facts)
    assert theirs[-6] == f"({state['coordinator']})"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_planned_offsets_of_a_reset_agree_with_kafkas_tool(
    cluster: GroupsOfCluster, tool: Callable[[str], list[list[str]]], protocol: str, tmp_path: Path
) -> None:
    moment = datetime.fromtimestamp(cluster.begun_ms / 1000 + 3, UTC)
    group, both = cluster.empty[protocol], f"--topic {cluster.topic}"
    for ours, theirs in (
        (f"{both} --to-earliest", f"{both} --to-earliest"),
        ("--all-topics --by 7", "--all-topics --shift-by 7"),
        (f"{both} --to-offset 400", f"{both} --to-offset 400"),
        (f"{both} --to-current", f"{both} --to-current"),
        (f"{both} --to-time {moment.isoformat()}", f"{both} --to-datetime {moment:%Y-%m-%dT%H:%M:%S.000}"),
        (f"{both}:2 --by-duration P2D", f"{both}:2 --by-duration P2D"),
    ):
        plan = cluster.rows("reset", group, *ours.split(), "--dry-run")
        lines = [line for line in tool(f"--reset-offsets --group {group} {theirs} --dry-run") if line[0] == group]
        assert lines
        assert sorted(lines) == sorted(cells(row, "group", "topic", "partition", "new_offset") for row in plan), ours
    assert cluster.offsets(group) == COMMITTED
    exported = tool(f"--reset-offsets --group {group} --all-topics --to-current --export --dry-run")
    file = tmp_path / "exported.csv"
    file.write_text("\n".join(line[0] for line in exported if line[0].count(",") == 2))
    plan = cluster.rows("reset", group, "--from-file", str(file), "--dry-run")
    assert {row["partition"]: row["new_offset"] for row in plan} == COMMITTED


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_offsets_of_an_empty_group_are_reset_and_deleted(cluster: GroupsOfCluster, protocol: str) -> None:
    group = f"reset-{protocol}-{uuid.uuid4().hex[:8]}"
    leave(joined(cluster.bootstrap, cluster.topic, group, PROTOCOLS[protocol]))
    ended = cluster.run("reset", group, "--all-topics", "--by", "3", "--yes")
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert cluster.offsets(group) == {index: offset + 3 for index, offset in COMMITTED.items()}
    ended = cluster.run("delete", group, "--topic", f"{cluster.topic}:1")
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert cluster.offsets(group).keys() == {0, 3}
    assert cluster.run("delete", group).stdout == f"Deleted the group {group}.\n"
    gone = cluster.run("describe", group)
    assert (gone.exit_code, gone.stderr) == (1, f"Error: Group '{group}' does not exist (GROUP_ID_NOT_FOUND)\n")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_active_group_is_neither_reset_nor_deleted(cluster: GroupsOfCluster, protocol: str) -> None:
    group = cluster.active[protocol]
    reset = cluster.run("reset", group, "--all-topics", "--to-earliest", "--yes")
    assert reset.exit_code == 1
    assert reset.stderr.startswith(f"Error: Group '{group}' is active (state Stable, members 1)")
    deleted = cluster.run("delete", group)
    assert (deleted.exit_code, deleted.stdout) == (1, "")
    assert "has active members, which must leave first (NON_EMPTY_GROUP)" in deleted.stderr
    offsets = cluster.run("delete", group, "--topic", cluster.topic)
    assert offsets.exit_code == 1
    assert "GROUP_SUBSCRIBED_TO_TOPIC" in offsets.stderr
    assert cluster.offsets(group) == {**dict.fromkeys(range(PARTITIONS)), **COMMITTED}
