"""The check of the logs on all disks: below the high watermark, all replicas of a partition have the same bytes."""

from __future__ import annotations

from collections.abc import Iterator

from pykbroker.core.metadata.image import MetadataImage
from pykbroker.sim.cluster.nodes import SimCluster
from pykbroker.sim.history import Place
from wire.errors import DecodeError
from wire.records.batch import batches

StoredBatches = dict[int, tuple[int, bytes]]
"""The leader epoch and the bytes of each batch of a log, by base offset."""


def check_replicas(cluster: SimCluster, image: MetadataImage) -> list[str]:
    """Return a finding for each partition whose replicas differ.

    Batches of the same leader epoch must be equal wherever they are, and all batches below the leader's high watermark.
    """
    findings: list[str] = []
    for topic in image.topics.by_name.values():
        for index, placed in topic.partitions.items():
            place = topic.name, index
            leader = cluster.replica(placed.leader, place)
            if leader is None:
                continue
            logs = {node_id: _batches(cluster, node_id, place) for node_id in sorted({*placed.isr, placed.leader})}
            starts = {node_id: _log_start(cluster, node_id, place) for node_id in logs}
            findings += _compare(place, placed.leader, leader.high_watermark, logs, starts)
    return findings


def _log_start(cluster: SimCluster, node_id: int, place: Place) -> int:
    replica = cluster.replica(node_id, place)
    return 0 if replica is None or replica.log is None else replica.log.log_start_offset


def _compare(
    place: Place, leader: int, high_watermark: int, logs: dict[int, StoredBatches], starts: dict[int, int]
) -> Iterator[str]:
    """Compare the batches from the higher one of two log start offsets on.

    Only one log has a batch across that offset.
    """
    ours = logs[leader]
    for node_id, theirs in logs.items():
        start = max(min(ours, default=0), min(theirs, default=0), starts[leader], starts[node_id])
        for offset in sorted({*ours, *theirs}):
            one, other = ours.get(offset), theirs.get(offset)
            same_epoch = one is not None and other is not None and one[0] == other[0]
            if start <= offset and one != other and (same_epoch or offset < high_watermark):
                yield (
                    f"the replicas of {place} differ at offset {offset}, below the high watermark {high_watermark}:"
                    f" {_described(one)} on broker {leader}, {_described(other)} on broker {node_id}"
                )
                break


def _described(batch: tuple[int, bytes] | None) -> str:
    return "no batch" if batch is None else f"{len(batch[1])} bytes of epoch {batch[0]}"


def _batches(cluster: SimCluster, node_id: int, place: Place) -> StoredBatches:
    """Return the batches of a log on disk, up to the first damaged one."""
    found: StoredBatches = {}
    for content in cluster.nodes[node_id].machine.contents(f"{place[0]}-{place[1]}", ".log"):
        try:
            for batch in batches(content):
                found[batch.base_offset] = batch.leader_epoch, bytes(batch.buffer)
        except DecodeError:
            break
    return found
