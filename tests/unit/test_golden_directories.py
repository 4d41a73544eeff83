"""Apache Kafka's log directories, opened by a whole broker: it serves what Kafka served from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykbroker.core.metadata.ids import id_text
from tests.unit.directories import consume, serving
from tests.unit.storage.golden import expected, unpack
from wire.messages.metadata import MetadataRequest


@pytest.mark.parametrize("kind", ["clean", "unclean"])
async def test_what_kafka_served_is_served(tmp_path: Path, kind: str) -> None:
    directory = unpack(kind, tmp_path)
    for life in ("first", "second"):
        async with serving(directory) as client:
            told = {topic.name: topic for topic in (await client.call(MetadataRequest(topics=None), 12)).topics}
            for topic, facts in expected(kind).items():
                assert id_text(told[topic].topic_id) == facts["id"]
                assert len(told[topic].partitions) == facts["partitions"]
                for partition, isolations in facts["p"].items():
                    for isolation, wanted in isolations.items():
                        found = await consume(client, topic, int(partition), committed=isolation == "read_committed")
                        assert found == wanted, f"{topic}-{partition}, {isolation}, {life} life"
