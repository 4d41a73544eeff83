"""The topics of a producer: how long their metadata is kept."""

from __future__ import annotations

import trio

from tests.unit.producer.conftest import Producing


async def test_the_metadata_of_a_topic_expires_without_records_and_is_requested_anew(
    autojump_clock, producing: Producing
) -> None:
    async with producing.producer(metadata_max_age_ms=10_000, metadata_max_idle_ms=15_000) as producer:
        topics = producer._shell.topics
        for _ in range(10):
            await (await producer.send("topic", b"a", partition=0))
            await trio.sleep(7)
            assert topics.find("topic", 0), "records extend the time of the metadata"
        await trio.sleep(30)
        assert topics.find("topic", 0) is None
        assert (await (await producer.send("topic", b"b", partition=0))).offset == 10
