"""The topics that options and variables name are created at the start of a broker, or refused with their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykbroker.core.new_topic import NewTopic
from tests.unit.cluster.nodes import Node, cluster
from tests.unit.cluster.test_bad_clusters import failure_of
from wire.messages.metadata import MetadataRequest

VARIABLE = "KAFKA_CREATE_TOPICS"
TWO_REPLICAS = NewTopic("a", 1, {}, 2, VARIABLE)


async def test_a_topic_that_cannot_be_created_is_refused_with_its_variable(tmp_path: Path) -> None:
    node = Node(1, tmp_path, None)
    node.topics = (TWO_REPLICAS,)
    assert str(await failure_of(node, controller_listeners=())) == (
        "KAFKA_CREATE_TOPICS: cannot create the topic a: Unable to replicate the partition 2 time(s): The target"
        " replication factor of 2 cannot be reached because only 1 broker(s) are registered or some brokers have all"
        " their log directories cordoned: write fewer replicas"
    )
    node.topics = (NewTopic("a_b", 1), NewTopic("a.b", 1))
    assert str(await failure_of(node, controller_listeners=())) == (
        "cannot create the topic a.b: Topic 'a.b' collides with existing topic: a_b: correct the topic"
    )


async def test_topics_that_are_too_many_for_one_request_are_created_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykbroker.core.metadata.machine.RECORDS_MAX", 8)
    node = Node(1, tmp_path, None)
    node.topics = (NewTopic("a", 7), NewTopic("b", 7), NewTopic("c", 8, {}, 1, VARIABLE))
    assert str(await failure_of(node, controller_listeners=())) == (
        "KAFKA_CREATE_TOPICS: cannot create the topic c: Unable to perform excessively large batch operation:"
        " write fewer partitions"
    )
    async with cluster(tmp_path / "again") as running:
        running.nodes[1] = Node(1, tmp_path / "again", None)
        running.nodes[1].topics = (NewTopic("a", 7), NewTopic("b", 7))
        topics = (await (await running.start(1)).call(MetadataRequest(topics=None), 12)).topics
        assert [(topic.name, len(topic.partitions)) for topic in topics] == [("a", 7), ("b", 7)]


async def test_a_topic_of_several_replicas_is_created_once_enough_brokers_have_started(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(tmp_path) as running:
        first = running.nodes[1] = Node(1, tmp_path / "node1", None)
        first.topics = (TWO_REPLICAS,)
        client = await running.start(1)
        assert "only 1 broker(s) are registered" in caplog.text
        assert "the next broker that starts with this topic creates it" in caplog.text
        assert (await client.call(MetadataRequest(topics=None), 12)).topics == []
        second = running.nodes[2] = Node(2, tmp_path / "node2", first.controller_address)
        second.topics = (TWO_REPLICAS,)
        client = await running.start(2)
        (topic,) = (await client.call(MetadataRequest(topics=None), 12)).topics
        assert (topic.name, sorted(topic.partitions[0].replica_nodes)) == ("a", [1, 2])
