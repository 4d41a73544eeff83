"""Topics as clients of different listeners see them, with brokers that do not have all listeners (KIP-226)."""

from __future__ import annotations

from collections.abc import Hashable
from types import SimpleNamespace
from typing import Any

import pytest

from pykbroker.apis.topics.describe_topic_partitions import DescribeTopicPartitions
from pykbroker.apis.topics.metadata import Metadata
from pykbroker.core.address import Address
from pykbroker.core.ids import LOST, MIGRATING, UNASSIGNED
from pykbroker.core.metadata.image import (
    BrokerImage,
    ClusterImage,
    Endpoint,
    MetadataImage,
    PartitionImage,
    TopicImage,
    TopicsImage,
)
from pykbroker.core.security.session import Session
from pykbroker.server.answers import Answers
from pykbroker.server.endpoints import BrokerEndpoints
from pykbroker.server.handler import EncodedResponse, RequestContext
from tests.unit.apis.calling import gone_through
from wire.compile import decoder
from wire.error_codes import ErrorCode
from wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic

OWN, DIRECTORY, FAILED = 1, b"d" * 16, b"f" * 16
NOTHING: Any = None
Described = dict[int, tuple[ErrorCode, int, list[int]]]
"""The error, the leader and the offline replicas of each partition."""


def broker(node_id: int, *listeners: str, fenced: bool = False, directories: tuple[bytes, ...] = ()) -> BrokerImage:
    endpoints = tuple(Endpoint(name, "h", 9000 + node_id) for name in listeners)
    return BrokerImage(node_id, b"i" * 16, endpoints, epoch=1, fenced=fenced, directories=directories)


def partition(leader: int, *replicas: int, directories: tuple[bytes, ...] = ()) -> PartitionImage:
    return PartitionImage(replicas, replicas, leader, 0, 0, directories)


class Seen:
    """A topic of a cluster whose broker 1 has two listeners, as the clients of each see it."""

    def __init__(self, *partitions: PartitionImage, offline: tuple[int, ...] = ()) -> None:
        brokers = (
            broker(OWN, "PLAINTEXT", "EXTRA", directories=(DIRECTORY,)),
            broker(2, "PLAINTEXT", directories=(DIRECTORY,)),
            broker(3, "PLAINTEXT", "EXTRA", fenced=True),
            broker(4, "PLAINTEXT", "EXTRA"),
        )
        topic = TopicImage("t", b"t" * 16, dict(enumerate(partitions)))
        image = MetadataImage(
            cluster=ClusterImage({one.id: one for one in brokers}), topics=TopicsImage({"t": topic}, {topic.id: topic})
        )
        replicas: Any = SimpleNamespace(offline=lambda topic_id: set(offline))
        endpoints = BrokerEndpoints(OWN, lambda: image, {"PLAINTEXT": Address("h", 1), "EXTRA": Address("h", 1)})
        self.kept: list[object] = []
        kept = self.kept

        class Noting(Answers):
            def keep(
                self, image: object, question: Hashable, answer: EncodedResponse, topics: tuple[bytes, ...]
            ) -> None:
                kept.append(question)
                super().keep(image, question, answer, topics)

        self._metadata = Metadata(OWN, "c", lambda: image, NOTHING, endpoints, False, replicas, Noting(), NOTHING)
        self._partitions = DescribeTopicPartitions(lambda: image, 100, OWN, replicas, endpoints)

    def metadata(self, listener: str, version: int = 12) -> MetadataResponse:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
        data = b"".join(gone_through(self._metadata(at(listener, version), request)).parts)
        return decoder(MetadataResponse, version)(data, 0, len(data))

    def by_metadata(self, listener: str, version: int = 12) -> Described:
        (topic,) = self.metadata(listener, version).topics
        return described(topic)

    def by_partitions(self, listener: str) -> Described:
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest("t")], response_partition_limit=100)
        (topic,) = gone_through(self._partitions(at(listener, 0), request)).topics
        return described(topic)


def at(listener: str, version: int) -> RequestContext:
    return RequestContext(version, "test", Session("127.0.0.1", 1, "127.0.0.1", 9092, listener, 0))


def described(topic: MetadataResponseTopic | Any) -> Described:
    assert topic.error_code == ErrorCode.NONE
    return {
        one.partition_index: (ErrorCode(one.error_code), one.leader_id, one.offline_replicas)
        for one in topic.partitions
    }


@pytest.mark.parametrize(
    ("version", "code", "offline"),
    [
        (4, ErrorCode.LEADER_NOT_AVAILABLE, []),
        (5, ErrorCode.LEADER_NOT_AVAILABLE, [2]),
        (6, ErrorCode.LISTENER_NOT_FOUND, [2]),
        (13, ErrorCode.LISTENER_NOT_FOUND, [2]),
    ],
)
def test_a_leader_without_the_clients_listener_is_not_named(version: int, code: ErrorCode, offline: list[int]) -> None:
    seen = Seen(partition(2, 2), partition(OWN, OWN, 2), partition(4, 4))
    expected = {0: (code, -1, offline), 1: (ErrorCode.NONE, OWN, offline), 2: (ErrorCode.NONE, 4, [])}
    assert seen.by_metadata("EXTRA", version) == expected
    everywhere: Described = {index: (ErrorCode.NONE, leader, []) for index, leader in enumerate((2, OWN, 4))}
    assert seen.by_metadata("PLAINTEXT", version) == everywhere
    assert seen.by_metadata("EXTRA", version) == expected


def test_version_0_has_only_reachable_replicas_and_an_error_for_the_others() -> None:
    seen = Seen(partition(OWN, OWN, 4), partition(OWN, OWN, 2), partition(2, 4, 2), partition(4, 3, 4))
    (topic,) = seen.metadata("EXTRA", 0).topics
    found = [(ErrorCode(one.error_code), one.leader_id, one.replica_nodes, one.isr_nodes) for one in topic.partitions]
    assert found == [
        (ErrorCode.NONE, OWN, [OWN, 4], [OWN, 4]),
        (ErrorCode.REPLICA_NOT_AVAILABLE, OWN, [OWN], [OWN]),
        (ErrorCode.LEADER_NOT_AVAILABLE, -1, [4], [4]),
        (ErrorCode.REPLICA_NOT_AVAILABLE, 4, [4], [4]),
    ]
    (later,) = seen.metadata("EXTRA", 1).topics
    assert [one.replica_nodes for one in later.partitions] == [[OWN, 4], [OWN, 2], [4, 2], [3, 4]]


def test_a_broker_without_the_clients_listener_is_not_listed() -> None:
    response = Seen(partition(2, 2)).metadata("EXTRA")
    assert [one.node_id for one in response.brokers] == [OWN, 4]


def test_pages_name_no_leader_without_the_clients_listener_and_report_no_error() -> None:
    seen = Seen(partition(2, 2, OWN), partition(-1, 3), partition(OWN, OWN), offline=(2,))
    none = ErrorCode.NONE
    assert seen.by_partitions("EXTRA") == {0: (none, -1, [2]), 1: (none, -1, [3]), 2: (none, -1, [OWN])}
    assert seen.by_partitions("PLAINTEXT") == {0: (none, 2, []), 1: (none, -1, [3]), 2: (none, -1, [OWN])}


@pytest.mark.parametrize("leader", [-1, 3, 7], ids=("no leader", "a fenced leader", "a leader that is not registered"))
def test_a_partition_whose_leader_is_gone_has_the_same_error_on_all_listeners(leader: int) -> None:
    seen = Seen(partition(leader, 3, 7))
    for listener in ("PLAINTEXT", "EXTRA"):
        assert seen.by_metadata(listener) == {0: (ErrorCode.LEADER_NOT_AVAILABLE, -1, [3, 7])}


@pytest.mark.parametrize(
    ("directory", "is_offline"),
    [(DIRECTORY, False), (FAILED, True), (LOST, True), (UNASSIGNED, False), (MIGRATING, False)],
    ids=("online", "failed", "lost", "unassigned", "migrating"),
)
def test_a_replica_in_an_offline_directory_of_another_broker_is_offline(directory: bytes, is_offline: bool) -> None:
    seen = Seen(partition(OWN, OWN, 2, directories=(DIRECTORY, directory)))
    expected = {0: (ErrorCode.NONE, OWN, [2] if is_offline else [])}
    assert seen.by_metadata("PLAINTEXT") == expected
    assert seen.by_partitions("PLAINTEXT") == expected


def test_a_broker_that_registered_no_directories_has_lost_replicas_only_offline() -> None:
    seen = Seen(*(partition(OWN, OWN, 4, directories=(DIRECTORY, one)) for one in (FAILED, LOST)))
    assert seen.by_metadata("PLAINTEXT") == {0: (ErrorCode.NONE, OWN, []), 1: (ErrorCode.NONE, OWN, [4])}


def test_responses_with_offline_replicas_of_other_brokers_are_cached_by_listener() -> None:
    seen = Seen(partition(OWN, OWN, 3))
    for listener in ("PLAINTEXT", "EXTRA") * 2:
        assert seen.by_metadata(listener) == {0: (ErrorCode.NONE, OWN, [3])}
    assert len(seen.kept) == 2
