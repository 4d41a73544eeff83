"""The watch over a running cluster: it compares the images and the replicas of all brokers several times a second.

It knows no decision of a broker. Each check is a promise of Kafka about the states of several brokers at one time.
"""

from __future__ import annotations

import trio

from pykbroker.core.metadata.image import MetadataImage, PartitionImage
from pykbroker.replica.partition import Partition
from pykbroker.sim.cluster.nodes import SimCluster
from pykbroker.sim.history import Place

LOOK_S = 0.02
FENCED_S_MAX = 2.0
"""The time in seconds for which a fenced broker may remain in an ISR, since a fence consists of several batches."""
ELR_FEATURE = "eligible.leader.replicas.version"


class ClusterWatch:
    """A watch that adds each violation once to `found`, as a sentence."""

    def __init__(self, cluster: SimCluster, found: list[str]) -> None:
        self._cluster, self._found = cluster, found
        self._reported: set[str] = set()
        self._images: dict[int, tuple[str, MetadataImage]] = {}
        self._writers: dict[tuple[Place, int], int] = {}
        self._high_watermarks: dict[tuple[str, Place, int], int] = {}
        self._fenced_since: dict[tuple[Place, int], float] = {}
        self.committed: dict[Place, int] = {}
        """The highest high watermark of a leader that the metadata names, by partition."""
        self.looks = 0

    async def run(self) -> None:
        """Look at the cluster until cancelled."""
        while True:
            self.look()
            await trio.sleep(LOOK_S)

    def look(self) -> None:
        """Check all promises once."""
        self.looks += 1
        image = self._cluster.image()
        for node_id, parts in self._cluster.serving():
            self._compare_images(self._cluster.nodes[node_id].machine.process.name, parts.quorum.images.committed)
            for partition in parts.replicas.all_online():
                if partition.is_leader:
                    self._check_leader(node_id, partition, image)
        if image is not None:
            for topic in image.topics.by_name.values():
                for index, placed in topic.partitions.items():
                    self._check_members((topic.name, index), placed, image)

    # ---- images

    def _compare_images(self, life: str, image: MetadataImage) -> None:
        """Compare an image with the image that another node, or an earlier life of this node, had at its offset."""
        known = self._images.setdefault(image.offset, (life, image))
        if known[1] is not image and known[1] != image:
            self._report(f"two images at offset {image.offset} of the metadata: of {known[0]} and of {life}")

    # ---- leaders

    def _check_leader(self, node_id: int, partition: Partition, image: MetadataImage | None) -> None:
        place, epoch, high_watermark = (
            (partition.topic, partition.index),
            partition.leader_epoch,
            partition.high_watermark,
        )
        writer = self._writers.setdefault((place, epoch), node_id)
        if writer != node_id:
            self._report(f"two writers in epoch {epoch} of {place}: broker {writer} and broker {node_id}")
        life = self._cluster.nodes[node_id].machine.process.name, place, epoch
        before = self._high_watermarks.get(life, 0)
        if high_watermark < before:
            self._report(f"high watermark back in {place}: from {before} to {high_watermark} in epoch {epoch}")
        self._high_watermarks[life] = high_watermark
        placed = None if image is None else image.topics.partition(*place)
        if placed is None or placed.leader != node_id or placed.leader_epoch != epoch:
            return
        self.committed[place] = max(self.committed.get(place, 0), high_watermark)
        for member in placed.isr:
            end = self._end_offset(member, place)
            if end is not None and end < high_watermark:
                self._report(
                    f"high watermark above the ISR in {place}: {high_watermark} in epoch {epoch} of broker {node_id},"
                    f" but the log of broker {member} ends at {end}"
                )
            else:
                self._compare_epochs(place, high_watermark - 1, node_id, member)

    def _compare_epochs(self, place: Place, offset: int, leader: int, member: int) -> None:
        """Compare the leader epochs that two brokers know for a committed record: equal ones mean equal records."""
        ours, theirs = self._epoch_of(leader, place, offset), self._epoch_of(member, place, offset)
        if None not in (ours, theirs) and ours != theirs:
            self._report(
                f"two records at offset {offset} of {place}, below the high watermark: of epoch {ours} on broker"
                f" {leader}, which leads, and of epoch {theirs} on broker {member}"
            )

    def _epoch_of(self, node_id: int, place: Place, offset: int) -> int | None:
        """Return the leader epoch of a record, or None if the broker does not serve or no longer has the record."""
        replica = self._cluster.replica(node_id, place)
        if replica is None or replica.log is None or offset < replica.log.log_start_offset:
            return None
        return replica.log.state.epochs.epoch_of(offset)

    def _end_offset(self, node_id: int, place: Place) -> int | None:
        replica = self._cluster.replica(node_id, place)
        return None if replica is None or replica.log is None else replica.log.log_end_offset

    # ---- members of the ISR and the ELR

    def _check_members(self, place: Place, placed: PartitionImage, image: MetadataImage) -> None:
        brokers, now = image.cluster.brokers, trio.current_time()
        if both := set(placed.isr) & set(placed.elr):
            self._report(f"brokers {sorted(both)} are in the ISR and in the ELR of {place}")
        if placed.leader >= 0 and placed.leader not in placed.isr:
            self._report(f"broker {placed.leader} leads {place}, but is not in the ISR {placed.isr}")
        may_stay = image.features.level(ELR_FEATURE) == 0 and len(placed.isr) == 1
        for member in placed.isr:
            if not brokers[member].fenced or may_stay:
                self._fenced_since.pop((place, member), None)
            elif now - self._fenced_since.setdefault((place, member), now) > FENCED_S_MAX:
                self._report(f"broker {member} is fenced, but stays in the ISR of {place}")
        for member in placed.elr:
            end = self._end_offset(member, place)
            if end is not None and not brokers[member].fenced and end < self.committed.get(place, 0):
                self._report(
                    f"broker {member} is in the ELR of {place}, but its log ends at {end}, below the committed offset"
                    f" {self.committed[place]}"
                )

    def _report(self, finding: str) -> None:
        if finding not in self._reported:
            self._reported.add(finding)
            self._found.append(finding)
