"""DescribeLogDirs: the partitions of each directory, their sizes, and directories that failed."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pykbroker.apis.cluster.describe_log_dirs import DescribeLogDirs
from tests.unit.apis.calling import context, gone_through
from tests.unit.apis.conftest import Client, batch
from wire.error_codes import ErrorCode
from wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)

EVERYTHING = DescribeLogDirsRequest(topics=None)


def sizes(result: DescribeLogDirsResult) -> dict[tuple[str, int], int]:
    return {
        (topic.name, one.partition_index): one.partition_size for topic in result.topics for one in topic.partitions
    }


@pytest.mark.parametrize("version", range(1, 6))
async def test_every_version_describes_all_partitions(client: Client, tmp_path: Path, version: int) -> None:
    one = batch(b"x")
    for _ in range(3):
        await client.produce("a", one, partition=2)
    response: DescribeLogDirsResponse = await client.call(EVERYTHING, version)
    (result,) = response.results
    assert (response.error_code, result.error_code, result.log_dir) == (0, 0, str(tmp_path))
    assert sizes(result) == {("a", 0): 0, ("a", 1): 0, ("a", 2): 3 * len(one), ("a", 3): 0}
    assert {(one.offset_lag, one.is_future_key) for topic in result.topics for one in topic.partitions} == {(0, False)}
    if version >= 4:
        assert 0 < result.usable_bytes < result.total_bytes
    else:
        assert (result.usable_bytes, result.total_bytes) == (-1, -1)
    assert result.is_cordoned is False


@pytest.mark.parametrize(
    ("topics", "found"),
    [
        ([], set()),
        ([("a", [1, 3])], {("a", 1), ("a", 3)}),
        ([("a", [])], set()),
        ([("nobody", [0]), ("a", [0, 9, -1]), ("a", [0])], {("a", 0)}),
    ],
)
async def test_only_the_requested_partitions_are_described(
    client: Client, topics: list[tuple[str, list[int]]], found: set[tuple[str, int]]
) -> None:
    request = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(*topic) for topic in topics])
    (result,) = (await client.call(request, 5)).results
    assert set(sizes(result)) == found
    assert all(topic.partitions for topic in result.topics)


async def test_a_deleted_topic_is_not_described(client: Client) -> None:
    await client.call(DeleteTopicsRequest(timeout_ms=1000, topics=[DeleteTopicState(name="a")]), 6)
    (result,) = (await client.call(EVERYTHING, 5)).results
    assert result.topics == []


def directories(*failures: OSError | None, space: Any = lambda: 100, refused: tuple[str, ...] = ()) -> DescribeLogDirs:
    """Return a handler with the directories "0", "1" and so on. Each has partition t-3 with an offset lag of 5."""
    every = tuple(SimpleNamespace(path=str(number), failed=failure) for number, failure in enumerate(failures))
    log = SimpleNamespace(size_bytes=7, log_end_offset=5)
    partition = SimpleNamespace(topic="t", index=3, log=log, high_watermark=10)
    disk = SimpleNamespace(total_bytes=space, free_bytes=lambda: 40)
    moves = SimpleNamespace(into=lambda directory: [])
    places = SimpleNamespace(is_cordoned=lambda directory: False)
    replicas = SimpleNamespace(online=lambda directory: [partition], moves=moves, places=places)
    parts: list[Any] = [every, tuple(disk for _ in every), refused, replicas]
    return DescribeLogDirs(*parts)


def test_a_failed_directory_does_not_affect_the_others() -> None:
    whole, failed = gone_through(directories(None, OSError(errno.EIO, "broken"))(context(5), EVERYTHING)).results
    assert (whole.error_code, sizes(whole), whole.total_bytes, whole.usable_bytes) == (0, {("t", 3): 7}, 100, 40)
    assert failed == DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, "1", [], -1, -1)


def test_a_directory_that_failed_to_open_has_an_error_result() -> None:
    whole, refused = gone_through(directories(None, refused=("/gone",))(context(5), EVERYTHING)).results
    assert (whole.log_dir, whole.error_code) == ("0", 0)
    assert refused == DescribeLogDirsResult(ErrorCode.KAFKA_STORAGE_ERROR, "/gone", [], -1, -1)


def test_a_directory_whose_size_cannot_be_read_has_an_error_result() -> None:
    def broken() -> int:
        raise OSError(errno.EIO, "broken")

    (failed,) = gone_through(directories(None, space=broken)(context(5), EVERYTHING)).results
    assert (failed.error_code, failed.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])


def test_a_future_replica_reports_its_offset_lag() -> None:
    (result,) = gone_through(directories(None)(context(5), EVERYTHING)).results
    assert [one.offset_lag for topic in result.topics for one in topic.partitions] == [5]
