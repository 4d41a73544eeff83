"""Tests of groups whose log `__consumer_offsets` has mostly empty segments after compaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from pykbroker.storage.cleaner.cleaner import Cleaner
from pykbroker.storage.segments.opening import LOADED_MAX
from tests.unit.apis.conftest import Client, serving
from wire.error_codes import ErrorCode
from wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

PARTITIONS = 3
OFFSETS_TOPIC = {"cleanup_policy": "compact", "internal_segment_bytes": "600", "min_cleanable_dirty_ratio": "0.01"}
COMMIT_VERSION, FETCH_VERSION = 9, 8
HOUR_MS = "3600000"


async def commit(client: Client, offset: int) -> None:
    """Commit the offsets of all partitions of "t" in one request."""
    answer = await client.call(
        OffsetCommitRequest(
            "g",
            topics=[
                OffsetCommitRequestTopic(
                    "t", partitions=[OffsetCommitRequestPartition(index, offset) for index in range(PARTITIONS)]
                )
            ],
        ),
        COMMIT_VERSION,
    )
    assert [one.error_code for one in answer.topics[0].partitions] == [0] * PARTITIONS


async def committed(client: Client) -> dict[int, int]:
    """Return the committed offset of each partition, once the coordinator has loaded its log."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
    while (answer := (await client.call(request, FETCH_VERSION)).groups[0]).error_code:
        assert answer.error_code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
    return {one.partition_index: one.committed_offset for topic in answer.topics for one in topic.partitions}


@pytest.fixture
def cleaned(monkeypatch: pytest.MonkeyPatch) -> trio.Event:
    """Return an event that is set once a log has been compacted."""
    event, clean = trio.Event(), Cleaner._clean

    async def noting(*args: Any) -> bool:
        done = await clean(*args)
        event.set()
        return done

    monkeypatch.setattr(Cleaner, "_clean", noting)
    return event


async def test_offsets_are_loaded_from_a_log_with_many_empty_segments(tmp_path: Path, cleaned: trio.Event) -> None:
    async with serving(tmp_path, topics=(("t", PARTITIONS),), log_cleaner_backoff_ms=HOUR_MS) as local_broker:
        client, number = await local_broker.connect(), 0
        await client.create("__consumer_offsets", 1, **OFFSETS_TOPIC)
        while len(segments(tmp_path)) < LOADED_MAX + 10:
            number += 1
            await commit(client, number)
    assert not cleaned.is_set()
    async with serving(tmp_path, log_cleaner_backoff_ms="10"):
        with trio.fail_after(30):
            await cleaned.wait()
    assert sum(path.stat().st_size == 0 for path in segments(tmp_path)) > LOADED_MAX
    async with serving(tmp_path, log_cleaner_backoff_ms=HOUR_MS) as local_broker:
        with trio.fail_after(30):
            assert await committed(await local_broker.connect()) == dict.fromkeys(range(PARTITIONS), number)


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("__consumer_offsets-0/*.log"))
