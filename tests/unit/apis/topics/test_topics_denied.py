"""Topics that a client may not describe, create or delete: the answers of Kafka 4.3.1 with its StandardAuthorizer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pykbroker.apis.topics.delete_topics import DeleteTopics
from pykbroker.broker.parts import Parts
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.new_topic import NewTopic
from pykbroker.core.security.operation import Operation, ResourceType
from pykbroker.core.security.session import Session
from tests.unit.apis.calling import Denies, context, work_of
from tests.unit.apis.conftest import Client, serving
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic

DENIED, REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_REQUEST
UNKNOWN_NAME, UNKNOWN_ID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID
NO_OPERATIONS = -(2**31)
STRANGE_ID = b"q" * 16
RIGHTS = {
    "seen": {Operation.DESCRIBE},
    "named": {Operation.DESCRIBE},
    "new": {Operation.CREATE},
    "full": set(Operation),
}
"""The operations that the client may perform on each topic. It may do nothing with all others, nor create any topic."""


class Topics(Denies):
    """An authorizer that allows `RIGHTS` on topics, and on the cluster everything but to create and delete topics."""

    def allows(self, session: Session, operation: Operation, resource: ResourceType, name: str, *_: Any) -> bool:
        if resource is ResourceType.TOPIC:
            return operation in RIGHTS.get(name, ())
        return operation not in (Operation.CREATE, Operation.DELETE)


@pytest.fixture
async def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    monkeypatch.setattr(Parts, "authorizer_of", lambda self, listener: Topics())
    topics = tuple(NewTopic(name, 1) for name in ("hidden", "seen"))
    async with serving(tmp_path, topics=topics) as running:
        yield await running.connect()


async def ids(client: Client) -> dict[str, bytes]:
    """Return the ids of all topics that the client may describe."""
    response = await client.call(MetadataRequest(None), 12)
    return {topic.name: topic.topic_id for topic in response.topics}


async def test_a_client_learns_of_no_topic_that_it_may_not_describe(guarded: Client) -> None:
    assert list(await ids(guarded)) == ["seen"]
    asked = [MetadataRequestTopic(name=name) for name in ("hidden", "absent", "seen", "named", "__consumer_offsets")]
    found = (await guarded.call(MetadataRequest(asked, include_topic_authorized_operations=True), 12)).topics
    described = 1 << Operation.DESCRIBE
    assert [
        (one.name, one.error_code, one.topic_id != NIL, one.is_internal, one.topic_authorized_operations)
        for one in found
    ] == [
        ("hidden", DENIED, False, False, NO_OPERATIONS),
        ("absent", DENIED, False, False, NO_OPERATIONS),
        ("seen", 0, True, False, described),
        ("named", DENIED, False, False, NO_OPERATIONS),  # it may not be created
        ("__consumer_offsets", DENIED, False, False, NO_OPERATIONS),
    ]
    (named,) = (await guarded.call(MetadataRequest(asked[3:4], allow_auto_topic_creation=False), 12)).topics
    assert named.error_code == UNKNOWN_NAME
    names = [TopicRequest(name) for name in ("hidden", "__consumer_offsets", "named", "seen")]
    pages = (await guarded.call(DescribeTopicPartitionsRequest(names), 0)).topics
    assert [(one.name, one.error_code, one.is_internal) for one in pages] == [
        ("named", UNKNOWN_NAME, False),
        ("seen", 0, False),
        ("__consumer_offsets", DENIED, False),
        ("hidden", DENIED, False),
    ]


async def test_topics_are_created_and_described_by_different_rights(guarded: Client) -> None:
    names = ("new", "full", "hidden", "absent", "__cluster_metadata", "twice", "twice")
    request = CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names], validate_only=True)
    found: list[Any] = (await guarded.call(request, 7)).topics
    assert {
        one.name: (one.error_code, one.error_message, one.topic_config_error_code, one.num_partitions, len(one.configs))
        for one in found
        if one.name != "full"
    } == {
        "new": (0, None, DENIED, -1, 0),
        "hidden": (DENIED, "Authorization failed.", 0, -1, 0),
        "absent": (DENIED, "Authorization failed.", 0, -1, 0),
        "__cluster_metadata": (REFUSED, "Creation of internal topic __cluster_metadata is prohibited.", 0, -1, 0),
        "twice": (REFUSED, "Duplicate topic name.", 0, -1, 0),
    }
    (full,) = (one for one in found if one.name == "full")
    assert (full.error_code, full.topic_config_error_code, full.num_partitions) == (0, 0, 1)
    assert full.configs


async def test_a_topic_that_may_not_be_deleted_is_named_only_to_clients_that_may_describe_it(
    guarded: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as shown:
        shown.setitem(RIGHTS, "hidden", {Operation.DESCRIBE})
        known = await ids(guarded)
    asked = [
        *(DeleteTopicState(name) for name in ("hidden", "seen", "absent", "named", "twice", "twice")),
        *(DeleteTopicState(None, topic_id) for topic_id in (known["hidden"], known["seen"], STRANGE_ID)),
        DeleteTopicState("seen", known["seen"]),
    ]
    found = (await guarded.call(DeleteTopicsRequest(asked, timeout_ms=9000), 6)).responses
    assert {one.error_message for one in found if one.error_code == DENIED} == {"Topic authorization failed."}
    assert sorted((one.name or "", one.topic_id != NIL, one.error_code) for one in found) == [
        ("", True, DENIED),
        ("", True, UNKNOWN_ID),
        ("absent", False, DENIED),
        ("hidden", False, DENIED),
        ("named", False, UNKNOWN_NAME),
        ("seen", False, DENIED),
        ("seen", True, DENIED),
        ("seen", True, REFUSED),
        ("twice", False, REFUSED),
    ]
    by_id = [MetadataRequestTopic(topic_id, None) for topic_id in (known["hidden"], known["seen"], STRANGE_ID)]
    described = (await guarded.call(MetadataRequest(by_id), 12)).topics
    assert [(one.name, one.topic_id, one.error_code) for one in described] == [
        (None, known["hidden"], DENIED),
        ("seen", known["seen"], 0),
        (None, STRANGE_ID, UNKNOWN_ID),
    ]


async def test_a_topic_that_only_the_controller_knows_yet_is_not_deleted_without_the_right() -> None:
    deleted = []

    class Controller:
        async def ask(self, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
            deleted.extend(request.topics)
            return DeleteTopicsResponse()

    controller: Any = Controller()
    api = DeleteTopics(controller, MetadataImage, True)
    asked = [*(DeleteTopicState(name) for name in ("named", "full")), DeleteTopicState(None, STRANGE_ID)]
    response = await work_of(api(context(6, Topics()), DeleteTopicsRequest(asked)))
    assert deleted == [DeleteTopicState("full")]
    assert {one.error_code for one in response.responses} == {UNKNOWN_NAME, UNKNOWN_ID}
    deleted.clear()
    await work_of(api(context(6), DeleteTopicsRequest(asked)))
    assert deleted == asked
