"""Groups of our consumer together with members of kafka-python, librdkafka and Java, with each assignor."""

from __future__ import annotations

import json
import subprocess
import threading
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import kafka
import pytest
from kafka.admin import NewTopic
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.interop.group_scenarios import PARTITIONS, POLL_S, SESSION_MS, Found, Member, is_shared, read, shared
from tests.interop.kafka_node import java
from tests.interop.metadata_pause import without_pause
from tests.interop.target import Target
from tests.interop.test_confluent_kafka import ConfluentMember
from tests.interop.test_kafka_drop_in import DropInMember
from tests.interop.test_kafka_python import KafkaPythonMember

pytestmark = pytest.mark.timeout(120)
OF_JAVA = "org.apache.kafka.clients.consumer."
ASSIGNORS = {
    "range": (f"{OF_JAVA}RangeAssignor", RangePartitionAssignor),
    "roundrobin": (f"{OF_JAVA}RoundRobinAssignor", RoundRobinPartitionAssignor),
    "sticky": (f"{OF_JAVA}StickyAssignor", StickyPartitionAssignor),
    "cooperative-sticky": (f"{OF_JAVA}CooperativeStickyAssignor", CooperativeStickyAssignor),
}
"""The class of each assignor in Java and in kafka-python. librdkafka lacks `sticky`."""
GROUPS = [*(("pykbroker", assignor) for assignor in ASSIGNORS), ("kafka", "range"), ("kafka", "cooperative-sticky")]
"""Coordinators with assignors. No coordinator reads what assignors exchange, so one of each kind meets Kafka's."""
JAVA_PROPERTIES = f"heartbeat.interval.ms=200\nsession.timeout.ms={SESSION_MS}\nauto.offset.reset=earliest\n"


class JavaMember:
    """The `Member` for Java: Kafka's verifiable consumer, whose events a thread reads."""

    def __init__(self, jars: Path, work: Path, bootstrap: str, topic: str, group: str, assignor: str) -> None:
        properties = work / f"{uuid.uuid4().hex}.properties"
        properties.write_text(JAVA_PROPERTIES)
        arguments = {
            "--bootstrap-server": bootstrap,
            "--topic": topic,
            "--group-id": group,
            "--assignment-strategy": ASSIGNORS[assignor][0],
            "--command-config": str(properties),
        }
        command = java(
            jars, "org.apache.kafka.tools.VerifiableConsumer", *(x for each in arguments.items() for x in each)
        )
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._assigned: set[int] = set()
        self._found: list[tuple[int, int]] = []
        self._news = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        for line in stream:
            event = json.loads(line)
            places = {each["partition"] for each in event.get("partitions", ())}
            if event["name"] == "partitions_assigned":
                self._assigned = self._assigned | places
            elif event["name"] == "partitions_revoked":
                self._assigned = self._assigned - places
            elif event["name"] == "records_consumed":
                for each in event["partitions"]:
                    offsets = range(each["minOffset"], each["maxOffset"] + 1)
                    self._found.extend((each["partition"], offset) for offset in offsets)
            self._news.set()
        stream.close()

    def poll(self) -> list[tuple[int, int]]:
        self._news.wait(POLL_S)
        self._news.clear()
        found, self._found = self._found, []
        return found

    def assigned(self) -> set[int]:
        return self._assigned

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)
        self._thread.join()


def member_with(kind: Any, ways: dict[str, object]) -> Any:
    """Return a class of members with further settings."""
    return type(kind.__name__, (kind,), {"ways": {**kind.ways, **ways}})


@pytest.mark.parametrize(("target", "assignor"), GROUPS, indirect=["target"])
def test_members_of_all_clients_share_the_partitions(
    target: Target, kafka_jars: Path, tmp_path: Path, assignor: str
) -> None:
    topic, group = f"mixed-{uuid.uuid4().hex}", uuid.uuid4().hex
    admin = kafka.KafkaAdminClient(bootstrap_servers=target.servers)
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    admin.close()
    ours = member_with(DropInMember, {"partition_assignment_strategy": [assignor]})
    theirs = member_with(KafkaPythonMember, {"partition_assignment_strategy": [ASSIGNORS[assignor][1]]})
    confluent = member_with(ConfluentMember, {"partition.assignment.strategy": assignor})

    with ExitStack() as stack:
        members: list[Any] = [
            stack.enter_context(closing(JavaMember(kafka_jars, tmp_path, target.servers, topic, group, assignor)))
        ]
        for kind in (theirs,) if assignor == "sticky" else (theirs, confluent):
            members.append(stack.enter_context(closing(kind(target.servers, topic, group))))
        first = ours(target.servers, topic, group)
        found = read_in_one_generation(target, topic, members, first)
        first.commit()
        first.close()
        shared(members)
        members.append(stack.enter_context(closing(ours(target.servers, topic, group))))
        found.update(shared(members))
        numbers = range(len(found), len(found) + 20)
        fill(target, topic, numbers)
        found = read(numbers.stop, *members, found=found)
        assert set(found) == {(number % PARTITIONS, number // PARTITIONS) for number in range(numbers.stop)}


def read_in_one_generation(target: Target, topic: str, members: Sequence[Member], ours: DropInMember) -> Found:
    """Write and read 40 records at a time, until the group keeps its generation meanwhile; return all that was read.

    Within a generation no record is read twice. A rebalance may repeat those that are not committed, and a client
    may begin one at any time: the leader does when its metadata changes.
    """
    found: Found = Counter()
    while True:
        shared([*members, ours])
        generation, before = ours.generation(), Counter(found)
        fill(target, topic, range(len(found), len(found) + 40))
        read(len(found) + 40, *members, ours, found=found)
        if ours.generation() == generation and is_shared([*members, ours]):
            assert set((found - before).values()) == {1}
            return found


def fill(target: Target, topic: str, numbers: range) -> None:
    producer = without_pause(kafka.KafkaProducer(bootstrap_servers=target.servers))
    for number in numbers:
        producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
    producer.close()
