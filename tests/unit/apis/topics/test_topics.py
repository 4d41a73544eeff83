"""CreateTopics and DeleteTopics on a complete broker: created topics are usable, and deleted topics are gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykbroker.world.system_disk import SystemDisk
from tests.unit.apis.conftest import Client, batch, produce_request, serving
from wire.error_codes import ErrorCode
from wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from wire.messages.init_producer_id import InitProducerIdRequest
from wire.messages.metadata import MetadataRequest


@pytest.mark.parametrize("version", range(2, 8))
async def test_every_version_creates_topics(client: Client, version: int) -> None:
    topic = CreatableTopic(name="b", num_partitions=3, replication_factor=1)
    (result,) = (await client.call(CreateTopicsRequest(topics=[topic]), version)).topics
    assert (result.name, result.error_code) == ("b", 0)
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        assert {config.name for config in result.configs} >= {"retention.ms", "cleanup.policy", "segment.bytes"}
    assert (await client.produce("b", batch(b"x"), partition=2)).error_code == 0


async def test_a_topic_that_cannot_be_created_does_not_affect_the_others(client: Client) -> None:
    def topic(name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> CreatableTopic:
        return CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
        )

    request = CreateTopicsRequest(
        topics=[
            topic("good"),
            topic("a"),
            topic("bad name"),
            topic("zero", 0),
            topic("many", 1, 2),
            topic("odd", retention_mss="1"),
            topic("odd2", retention_ms="soon"),
            topic("configured", retention_ms="1000"),
        ]
    )
    results = {one.name: one.error_code for one in (await client.call(request, 7)).topics}
    assert results == {
        "good": 0,
        "configured": 0,
        "a": ErrorCode.TOPIC_ALREADY_EXISTS,
        "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "zero": ErrorCode.INVALID_PARTITIONS,
        "many": ErrorCode.INVALID_REPLICATION_FACTOR,
        "odd": ErrorCode.INVALID_CONFIG,
        "odd2": ErrorCode.INVALID_CONFIG,
    }


@pytest.mark.parametrize("ignores_case", [True, False])
async def test_topics_that_differ_only_in_case_are_refused_if_a_file_system_ignores_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ignores_case: bool
) -> None:
    exists = SystemDisk.exists

    def folded(disk: SystemDisk, path: str) -> bool:
        return exists(disk, path) or path.lower() in map(str.lower, disk.names(""))

    if ignores_case:
        monkeypatch.setattr(SystemDisk, "exists", folded)
    async with serving(tmp_path) as local_broker:
        client = await local_broker.connect()
        refused: dict[str, tuple[int, str | None]] = {}
        for names in (["Orders"], ["orders", "other"], ["fruit", "Fruit"]):
            topics = [CreatableTopic(name=each, num_partitions=1, replication_factor=1) for each in names]
            results = (await client.call(CreateTopicsRequest(topics=topics), 7)).topics
            refused |= {each.name: (each.error_code, each.error_message) for each in results if each.error_code}
    code, end = ErrorCode.INVALID_TOPIC_EXCEPTION, "only in case, which the file system ignores"
    assert refused == {
        name: (code, f"Topic '{name}' differs from existing topic {other} {end}")
        for name, other in (("orders", "Orders"), ("Fruit", "fruit"))
        if ignores_case
    }


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_a_timeout_of_zero_creates_nothing_and_times_out(client: Client, timeout_ms: int) -> None:
    topic = CreatableTopic(name="b", num_partitions=1, replication_factor=1)
    (created,) = (await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms), 7)).topics
    deleting = DeleteTopicsRequest([DeleteTopicState(name="a")], timeout_ms=timeout_ms)
    (deleted,) = (await client.call(deleting, 6)).responses
    assert created.error_code == deleted.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert [topic.name for topic in (await client.call(MetadataRequest(topics=None), 9)).topics] == ["a"]


async def test_validate_only_creates_nothing(client: Client) -> None:
    topic = CreatableTopic(name="b", num_partitions=1, replication_factor=1)
    (result,) = (await client.call(CreateTopicsRequest(topics=[topic], validate_only=True), 7)).topics
    assert result.error_code == 0
    assert (await client.produce("b", batch(b"x"))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(1, 7))
async def test_every_version_deletes_topics(client: Client, version: int) -> None:
    request = DeleteTopicsRequest(timeout_ms=1000)
    if version >= 6:
        request.topics = [DeleteTopicState(name=name) for name in ("a", "nobody")]
    else:
        request.topic_names = ["a", "nobody"]
    responses = (await client.call(request, version)).responses
    assert {one.name: one.error_code for one in responses} == {"a": 0, "nobody": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert (await client.produce("a", batch(b"x"))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await client.call(MetadataRequest(topics=None), 9)).topics == []


async def test_a_recreated_topic_is_empty_and_has_a_new_id(client: Client) -> None:
    first = await client.create("b")
    await client.produce("b", batch(b"old"))
    request = DeleteTopicsRequest(timeout_ms=1000, topics=[DeleteTopicState(name=None, topic_id=first)])
    assert (await client.call(request, 6)).responses[0].error_code == 0
    second = await client.create("b")
    assert second != first
    assert (await client.produce("b", batch(b"new"))).base_offset == 0
    responses = (await client.call(request, 6)).responses
    assert [one.error_code for one in responses] == [ErrorCode.UNKNOWN_TOPIC_ID]


async def test_topic_deletion_can_be_disabled(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("a", 1),), delete_topic_enable="false") as local_broker:
        client = await local_broker.connect()
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=1000)
        assert (await client.call(request, 6)).responses[0].error_code == ErrorCode.TOPIC_DELETION_DISABLED


async def test_topics_and_records_survive_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=(("a", 2),)) as local_broker:
        client = await local_broker.connect()
        topic_id = await client.create("b", 1, retention_ms="-1")
        for number in range(10):
            await client.produce("a", batch(b"%d" % number), partition=number % 2)
        producer = await client.call(InitProducerIdRequest(transactional_id=None), 4)
    async with serving(tmp_path, topics=(("a", 2),)) as local_broker:
        client = await local_broker.connect()
        response = await client.call(MetadataRequest(topics=None), 12)
        assert {topic.name: len(topic.partitions) for topic in response.topics} == {"a": 2, "b": 1}
        assert next(topic.topic_id for topic in response.topics if topic.name == "b") == topic_id
        for partition in range(2):
            data = await client.fetch("a", 0, partition=partition)
            assert data.high_watermark == 5
            assert (await client.produce("a", batch(b"more"), partition=partition)).base_offset == 5
        later = await client.call(InitProducerIdRequest(transactional_id=None), 4)
        assert later.producer_id > producer.producer_id


async def test_pipelined_requests_are_executed_in_order(client: Client) -> None:
    topic = CreatableTopic(name="b", num_partitions=1, replication_factor=1)
    for _ in range(5):
        await client.send(CreateTopicsRequest(topics=[topic]), 7)
        await client.send(produce_request("b", batch(b"x")), 11)
        await client.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="b")], timeout_ms=1000), 6)
        created, produced, deleted = [await client.receive() for _ in range(3)]
        assert created.topics[0].error_code == 0
        assert produced.responses[0].partition_responses[0].error_code == 0
        assert deleted.responses[0].error_code == 0
