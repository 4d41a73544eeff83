"""Metadata, DescribeCluster, DescribeTopicPartitions and ApiVersions, as a client sees the cluster."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from pykbroker.apis.topics.metadata import Metadata
from pykbroker.core.address import Address
from pykbroker.core.metadata.create_topics import PARTITIONS_MAX
from pykbroker.core.metadata.image import MetadataImage, PartitionImage, TopicImage, TopicsImage
from pykbroker.core.security.acl.authorizer import AclAuthorizer, AclDecision
from pykbroker.core.security.session import Session
from pykbroker.server.answers import Answers, Kept
from pykbroker.server.endpoints import BrokerEndpoints
from pykbroker.server.forwarding import ControllerRequests
from pykbroker.server.handler import RequestContext
from tests.unit.apis.calling import SESSION, Denies, context, gone_through, work_of
from tests.unit.apis.conftest import Client, LocalBroker, serving
from wire.api import ApiKey
from wire.compile import decoder
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages.api_versions import ApiVersionsRequest
from wire.messages.describe_cluster import DescribeClusterRequest
from wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

NO_OPERATIONS = -(2**31)
IMAGE = MetadataImage()
REPLICAS: Any = SimpleNamespace(offline=lambda topic_id: set())


def empty() -> MetadataImage:
    """Return the same image each time, so that responses made from it are cached."""
    return IMAGE


def asking(*names: str, create: bool = False) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=create)


@pytest.mark.parametrize("version", range(14))
async def test_every_version_returns_the_broker_and_the_topics(
    client: Client, local_broker: LocalBroker, version: int
) -> None:
    response = await client.call(MetadataRequest(topics=None if version else []), version)
    (broker,) = response.brokers
    assert (broker.node_id, broker.host, broker.port) == (
        local_broker.serving.node_id,
        "127.0.0.1",
        local_broker.serving.port,
    )
    (topic,) = response.topics
    assert (topic.name, topic.error_code, len(topic.partitions)) == ("a", 0, 4)
    for index, partition in enumerate(topic.partitions):
        assert (partition.partition_index, partition.leader_id) == (index, broker.node_id)
        assert (partition.replica_nodes, partition.isr_nodes) == ([broker.node_id], [broker.node_id])
    if version >= 2:
        assert response.cluster_id == local_broker.serving.cluster_id
    if version >= 1:
        assert response.controller_id == broker.node_id
    assert (topic.topic_id != NIL) == (version >= 10)


async def test_an_empty_topic_list_requests_no_topics_from_version_1_on(client: Client) -> None:
    assert (await client.call(MetadataRequest(topics=[]), 1)).topics == []


async def test_topics_are_found_by_id(client: Client) -> None:
    topic_id = await client.create("b")
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=None, topic_id=topic_id), MetadataRequestTopic(name=None, topic_id=b"x" * 16)]
    )
    found, unknown = (await client.call(request, 12)).topics
    assert (found.name, found.topic_id, found.error_code) == ("b", topic_id, 0)
    assert (unknown.name, unknown.topic_id, unknown.error_code) == (None, b"x" * 16, ErrorCode.UNKNOWN_TOPIC_ID)


async def test_unknown_and_invalid_topic_names_have_different_errors(client: Client) -> None:
    topics = (await client.call(asking("nobody", "bad name", "a", "a"), 12)).topics
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
    assert [(topic.name, topic.error_code) for topic in topics] == [
        ("nobody", unknown),
        ("bad name", invalid),
        ("a", 0),
    ]


async def test_an_auto_created_topic_is_available_at_once(client: Client) -> None:
    (topic,) = (await client.call(asking("fresh", create=True), 12)).topics
    assert (topic.error_code, len(topic.partitions), topic.partitions[0].leader_id) == (0, 1, 1)
    again = (await client.call(asking("fresh", "__consumer_offsets", "bad/name", create=True), 12)).topics
    assert [one.error_code for one in again] == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    assert again[0].topic_id == topic.topic_id


async def test_auto_creation_has_the_same_partition_limit_as_create_topics(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"fresh-{index}" for index in range(PARTITIONS_MAX + 2)]
    topics = (await client.call(asking("a", *names, create=True), 12)).topics
    assert [(topic.name, topic.error_code) for topic in topics] == [
        ("a", ErrorCode.NONE),
        *((name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in names),
    ]
    assert "topics, which a client needs, are not created: " in caplog.text
    assert [topic.name for topic in (await client.call(MetadataRequest(topics=None), 12)).topics] == ["a"]


async def test_no_topic_is_created_if_auto_creation_is_disabled(tmp_path: Path) -> None:
    async with serving(tmp_path, auto_create_topics_enable="false") as local_broker:
        client = await local_broker.connect()
        (topic,) = (await client.call(asking("fresh", create=True), 12)).topics
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_authorized_operations_are_returned_on_request(client: Client) -> None:
    request = asking("a")
    assert (await client.call(request, 8)).topics[0].topic_authorized_operations == NO_OPERATIONS
    request.include_topic_authorized_operations = request.include_cluster_authorized_operations = True
    response = await client.call(request, 8)
    assert response.topics[0].topic_authorized_operations == sum(1 << op for op in (3, 4, 5, 6, 7, 8, 10, 11))
    assert response.cluster_authorized_operations == sum(1 << op for op in (5, 7, 8, 9, 10, 11, 12))


@pytest.mark.parametrize("version", range(3))
async def test_the_cluster_is_described(client: Client, local_broker: LocalBroker, version: int) -> None:
    response = await client.call(DescribeClusterRequest(), version)
    assert (response.error_code, response.cluster_id) == (0, local_broker.serving.cluster_id)
    assert [(one.broker_id, one.host, one.port) for one in response.brokers] == [
        (local_broker.serving.node_id, "127.0.0.1", local_broker.serving.port)
    ]
    assert response.cluster_authorized_operations == NO_OPERATIONS


@pytest.mark.parametrize(
    ("endpoint_type", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
async def test_describe_cluster_lists_brokers_but_no_controllers(
    client: Client, endpoint_type: int, code: ErrorCode
) -> None:
    assert (await client.call(DescribeClusterRequest(endpoint_type=endpoint_type), 1)).error_code == code


async def test_described_partitions_have_empty_replica_lists_instead_of_null(client: Client) -> None:
    response = await client.call(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="a")]), 0)
    (topic,) = response.topics
    assert [partition.partition_index for partition in topic.partitions] == [0, 1, 2, 3]
    for partition in topic.partitions:
        assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])
        assert partition.offline_replicas == []
    assert response.next_cursor is None


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7, 100])
async def test_pages_of_describe_topic_partitions_return_every_partition_once(client: Client, limit: int) -> None:
    await client.create("b", 2)
    await client.create("c", 1)
    seen: list[tuple[str, int]] = []
    cursor: Cursor | None = None
    for _ in range(10):
        request = DescribeTopicPartitionsRequest(topics=[], response_partition_limit=limit, cursor=cursor)
        response = await client.call(request, 0)
        page = [(topic.name, part.partition_index) for topic in response.topics for part in topic.partitions]
        assert len(page) <= limit
        seen += page
        cursor = response.next_cursor
        if cursor is None:
            break
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("a", 3), ("b", 0), ("b", 1), ("c", 0)]


async def test_metadata_returns_racks_and_offline_replicas(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("t", 2),)):
        pass
    (tmp_path / "t-1" / "partition.metadata").write_bytes(b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    async with serving(tmp_path, broker_rack="attic") as local_broker:
        response = await (await local_broker.connect()).call(asking("t"), 12)
        assert [broker.rack for broker in response.brokers] == ["attic"]
        again = await (await local_broker.connect()).call(asking("t"), 12)
        assert again == response
        described = [(one.error_code, one.leader_id, one.offline_replicas) for one in response.topics[0].partitions]
        node_id = local_broker.serving.node_id
        assert described == [(0, node_id, []), (ErrorCode.LEADER_NOT_AVAILABLE, -1, [node_id])]


async def test_a_cached_response_is_not_used_after_a_metadata_change(client: Client) -> None:
    before = await client.call(asking("a", "b"), 12)
    assert await client.call(asking("a", "b"), 12) == before
    assert [topic.error_code for topic in before.topics] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    await client.create("b", 2)
    after = await client.call(asking("a", "b"), 12)
    assert [len(topic.partitions) for topic in after.topics] == [4, 2]
    assert after.topics[0] == before.topics[0]


async def test_a_cached_response_is_not_used_after_a_log_failed(tmp_path: Path) -> None:
    kept: list[Kept] = []

    class Noting(Answers):
        def find(self, image: object, question: Hashable) -> Kept | None:
            kept.extend(filter(None, [super().find(image, question)]))
            return super().find(image, question)

    partitions: Any = {index: PartitionImage((1,), (1,), 1, 0, 0) for index in range(2)}
    topic, offline = TopicImage("t", b"t" * 16, partitions), set[int]()
    image = MetadataImage(topics=TopicsImage({"t": topic}, {topic.id: topic}))
    nothing: Any = None
    replicas: Any = SimpleNamespace(offline=lambda topic_id: offline)
    endpoints = BrokerEndpoints(1, lambda: image, {"PLAINTEXT": Address("h", 1)})
    api = Metadata(1, "c", lambda: image, nothing, endpoints, False, replicas, Noting(), nothing)
    whole = gone_through(api(context(12), asking("t")))
    assert gone_through(api(context(12), asking("t"))) is whole
    offline.add(1)
    changed = gone_through(api(context(12), asking("t")))
    assert changed.parts != whole.parts
    assert gone_through(api(context(12), asking("t"))).parts == changed.parts
    offline.clear()
    assert gone_through(api(context(12), asking("t"))) is whole
    assert len(kept) == 4


def test_repeated_topic_names_share_one_cached_response() -> None:
    questions: list[Any] = []

    class Noting(Answers):
        def find(self, image: object, question: Hashable) -> Kept | None:
            questions.append(question)
            return super().find(image, question)

    nothing: Any = None
    endpoints = BrokerEndpoints(1, MetadataImage, {"PLAINTEXT": Address("h", 1)})
    api = Metadata(1, "c", empty, nothing, endpoints, False, REPLICAS, Noting(), nothing)
    for names in (["a", "b"], ["a", "b", "a", "a"]):
        gone_through(api(context(9), asking(*names)))
    assert questions[0] == questions[1]


class AllowsAliceAtHome(Denies):
    """An authorizer that allows only one principal, and that only from one address."""

    def allows(self, session: Session, *_: object, **__: object) -> bool:
        return self.basis(session) == ("User:alice", "10.0.0.1")

    def basis(self, session: Session) -> Hashable:
        return session.principal, session.client_host


def test_a_cached_response_is_used_only_for_clients_with_equal_rights() -> None:
    nothing: Any = None
    endpoints = BrokerEndpoints(1, MetadataImage, {"PLAINTEXT": Address("h", 1)})
    api = Metadata(1, "c", empty, nothing, endpoints, False, REPLICAS, Answers(), nothing)
    for principal, host in (("User:alice", "10.0.0.1"), ("User:alice", "10.0.0.2"), ("User:bob", "10.0.0.1")) * 2:
        session = replace(SESSION, principal=principal, client_host=host, authorizer=AllowsAliceAtHome())
        answer = gone_through(api(RequestContext(12, "test", session), asking("t")))
        code = decoder(MetadataResponse, 12)(answer.parts[0], 0, len(answer.parts[0])).topics[0].error_code
        may_see = (principal, host) == ("User:alice", "10.0.0.1")
        expected = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if may_see else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert code == expected


def test_each_response_is_decided_anew_while_the_audit_log_has_what_is_allowed() -> None:
    lines: list[str] = []

    class Audit:
        """An audit log whose level a test sets."""

        wants = False

        def wants_allowed(self) -> bool:
            return self.wants

        def log(self, decision: AclDecision) -> None:
            lines.append(decision.name)

    audit = Audit()
    authorizer = AclAuthorizer(frozenset({"User:ANONYMOUS"}), audit)
    nothing: Any = None
    endpoints = BrokerEndpoints(1, MetadataImage, {"PLAINTEXT": Address("h", 1)})
    api = Metadata(1, "c", empty, nothing, endpoints, False, REPLICAS, Answers(), nothing)
    for audit.wants in (False, True, True, False):
        gone_through(api(context(12, authorizer), asking("t")))
    assert lines == ["t", "t"]


async def test_rights_that_end_while_a_topic_is_created_end_in_the_cache_too() -> None:
    class Allows(Denies):
        """An authorizer that allows everything until its ACLs change."""

        changes = 0

        def allows(self, *_: object, **__: object) -> bool:
            return not self.changes

        def basis(self, session: Session) -> Hashable:
            return self.changes

    authorizer = Allows()

    class Automatic:
        async def create_topics(self, *_: object) -> None:
            authorizer.changes += 1

    automatic: Any = Automatic()
    endpoints = BrokerEndpoints(1, MetadataImage, {"PLAINTEXT": Address("h", 1)})
    api = Metadata(1, "c", empty, automatic, endpoints, True, REPLICAS, Answers(), ControllerRequests(automatic))
    created = await work_of(gone_through(api(context(12, authorizer), asking("t", create=True))))
    for answer in (gone_through(created), gone_through(api(context(12, authorizer), asking("t", create=True)))):
        (topic,) = decoder(MetadataResponse, 12)(answer.parts[0], 0, len(answer.parts[0])).topics
        assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_unknown_topics_have_an_error_result(client: Client) -> None:
    asked = [TopicRequest(name=name) for name in ("nobody", "bad name")]
    topics = (await client.call(DescribeTopicPartitionsRequest(topics=asked), 0)).topics
    assert {topic.name: topic.error_code for topic in topics} == {
        "nobody": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


@pytest.mark.parametrize("version", range(5))
async def test_api_versions_lists_the_supported_apis(client: Client, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    response = await client.call(request, version)
    served = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
    assert served[ApiKey.PRODUCE] == (0, 13)
    assert served[ApiKey.FETCH] == (4, 18)
    assert served[ApiKey.API_VERSIONS] == (0, 4)
    assert served[ApiKey.INIT_PRODUCER_ID] == (0, 5)
    levels = {one.name: one.max_version_level for one in response.finalized_features}
    assert levels.get("metadata.version", 0) == (30 if version >= 3 else 0)


@pytest.mark.parametrize("name", ["", "-bad", "bad name", "x" * 10 + "!"])
async def test_an_invalid_client_software_name_is_refused_with_an_empty_list(client: Client, name: str) -> None:
    response = await client.call(ApiVersionsRequest(client_software_name=name, client_software_version="1"), 3)
    assert (response.error_code, response.api_keys) == (ErrorCode.INVALID_REQUEST, [])


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize(
    "topic",
    [
        MetadataRequestTopic(name=None, topic_id=b"i" * 16),
        MetadataRequestTopic(name=None),
        MetadataRequestTopic(name="a", topic_id=b"i" * 16),
    ],
)
async def test_topics_cannot_be_requested_by_id_before_version_12(
    client: Client, version: int, topic: MetadataRequestTopic
) -> None:
    response = await client.call(MetadataRequest(topics=[MetadataRequestTopic(name="a"), topic]), version)
    assert [(each.name, each.error_code) for each in response.topics] == [
        ("a", ErrorCode.INVALID_REQUEST),
        (topic.name or "", ErrorCode.INVALID_REQUEST),
    ]
