"""FetchSnapshot: what the controller answers if it has no such snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykbroker.core.names import CLUSTER_METADATA_TOPIC
from tests.unit.cluster.nodes import cluster
from wire.error_codes import ErrorCode
from wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestTopicSnapshot,
    LeaderIdAndEpoch,
    SnapshotId,
)


@pytest.mark.parametrize("version", [0, 1])
async def test_a_partition_or_a_snapshot_that_does_not_exist_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, version: int
) -> None:
    async with cluster(tmp_path, 1) as running:
        controller = await running.controller_client()
        for topic, partition, epoch, code in (
            (CLUSTER_METADATA_TOPIC, 1, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("another", 0, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (CLUSTER_METADATA_TOPIC, 0, 1, ErrorCode.SNAPSHOT_NOT_FOUND),
            (CLUSTER_METADATA_TOPIC, 0, 99, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ):
            asked = FetchSnapshotRequestPartitionSnapshot(partition, epoch, SnapshotId(1 << 40, 1))
            request = FetchSnapshotRequest(topics=[FetchSnapshotRequestTopicSnapshot(topic, [asked])])
            response = await controller.call(request, version)
            (described,) = response.topics
            (part,) = described.partitions
            assert (response.error_code, described.name, part.index) == (0, topic, partition)
            assert (part.error_code, bytes(part.unaligned_records)) == (code, b"")
            assert part.current_leader == LeaderIdAndEpoch(1, 1)
    assert "Traceback" not in caplog.text
