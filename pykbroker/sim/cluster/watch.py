"""The watch over a running cluster: it compares the images and the replicas of all brokers several times a second.

The watch does not know how a broker decides. Each check is a promise of Kafka about the states of several brokers at
one time.
"""

from __future__ import annotations

import trio

from pykbroker.core.metadata.image import MetadataImage, PartitionImage, TopicImage
from pykbroker.core.topic_partition import TopicIdPartition
from pykbroker.replica.partition.partition import Partition
from pykbroker.sim.cluster.nodes import SimCluster
from pykbroker.sim.cluster.stray_watch import StrayWatch
from pykbroker.sim.cluster.unclean_topic import TOPIC as UNCLEAN_TOPIC
from pykbroker.sim.history import Place
from pykbroker.storage.log.log import Log

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
        self._writers: dict[tuple[TopicIdPartition, int], int] = {}
        self._high_watermarks: dict[tuple[str, TopicIdPartition, int], int] = {}
        self._fenced_since: dict[tuple[Place, int], float] = {}
        self._eligible: dict[tuple[TopicIdPartition, int], int] = {}
        self._strays = StrayWatch(cluster)
        self.committed: dict[TopicIdPartition, int] = {}
        """The highest high watermark of a leader that the metadata names, by partition."""
        self.looks = 0

    @property
    def damaged(self) -> list[str]:
        """Return a sentence for each replica that was set aside as damaged."""
        return self._strays.damaged

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
            self._compare_images(
                self._cluster.nodes[node_id].machine.process.name, parts.quorum.images.committed, image
            )
            for partition in parts.replicas.all_online():
                self._check_log(node_id, partition)
                if partition.is_leader:
                    self._check_leader(node_id, partition, image)
        if image is not None:
            for finding in self._strays.look(image):
                self._report(finding)
            for topic in image.topics.by_name.values():
                for index, placed in topic.partitions.items():
                    self._check_members(topic, index, placed, image)

    # ---- images

    def _compare_images(self, life: str, image: MetadataImage, committed: MetadataImage | None) -> None:
        """Compare an image with the image that another node, or an earlier life of this node, had at its offset.

        No image may be newer than the controller's newest image, whose records are committed.
        """
        if committed is not None and image.offset > committed.offset:
            self._report(
                f"an image of uncommitted metadata: {life} has offset {image.offset}, and the controller has committed"
                f" up to {committed.offset}"
            )
        known = self._images.setdefault(image.offset, (life, image))
        if known[1] is not image and known[1] != image:
            self._report(f"two images at offset {image.offset} of the metadata: of {known[0]} and of {life}")

    # ---- replicas

    def _check_log(self, node_id: int, partition: Partition) -> None:
        """Check that the high watermark that a replica knows is not above its own log."""
        if partition.log is not None and partition.high_watermark > partition.log.log_end_offset:
            self._report(
                f"high watermark above the log of {(partition.topic, partition.index)} on broker {node_id}:"
                f" {partition.high_watermark}, but the log ends at {partition.log.log_end_offset}"
            )

    # ---- leaders

    def _check_leader(self, node_id: int, partition: Partition, image: MetadataImage | None) -> None:
        place, replica = (partition.topic, partition.index), (partition.topic_id, partition.index)
        epoch, high_watermark = partition.leader_epoch, partition.high_watermark
        writer = self._writers.setdefault((replica, epoch), node_id)
        if writer != node_id:
            self._report(f"two writers in epoch {epoch} of {place}: broker {writer} and broker {node_id}")
        life = self._cluster.nodes[node_id].machine.process.name, replica, epoch
        before = self._high_watermarks.get(life, 0)
        if high_watermark < before:
            self._report(f"high watermark back in {place}: from {before} to {high_watermark} in epoch {epoch}")
        self._high_watermarks[life] = high_watermark
        topic = None if image is None else image.topics.by_id.get(partition.topic_id)
        placed = None if topic is None else topic.partitions.get(partition.index)
        if placed is None or placed.leader != node_id or placed.leader_epoch != epoch:
            return
        if partition.topic != UNCLEAN_TOPIC:
            self.committed[replica] = max(self.committed.get(replica, 0), high_watermark)
        for member in placed.isr:
            end = self._end_offset(member, place, partition.topic_id)
            if end is not None and end < high_watermark:
                self._report(
                    f"high watermark above the ISR in {place}: {high_watermark} in epoch {epoch} of broker {node_id},"
                    f" but the log of broker {member} ends at {end}"
                )
            elif end is not None:
                self._compare_epochs(place, high_watermark - 1, node_id, member)
                self._compare_producers(place, node_id, member)

    def _compare_epochs(self, place: Place, offset: int, leader: int, member: int) -> None:
        """Compare the leader epochs that two brokers know for a committed record: equal ones mean equal records."""
        ours, theirs = self._epoch_of(leader, place, offset), self._epoch_of(member, place, offset)
        if None not in (ours, theirs) and ours != theirs:
            self._report(
                f"two records at offset {offset} of {place}, below the high watermark: of epoch {ours} on broker"
                f" {leader}, which leads, and of epoch {theirs} on broker {member}"
            )

    def _compare_producers(self, place: Place, leader: int, member: int) -> None:
        """Compare the last batches of the producers that two brokers know, if their logs end with the same records."""
        ours, theirs = (self._log(each, place) for each in (leader, member))
        if ours is None or theirs is None or ours is theirs:
            return
        if (ours.log_end_offset, ours.epochs.latest) != (theirs.log_end_offset, theirs.epochs.latest):
            return
        for one in theirs.producers.entries():
            known = ours.producers.get(one.producer_id)
            if known is None or not known.batches or not one.batches:
                continue
            if known.batches[-1].last_offset != one.batches[-1].last_offset:
                self._report(
                    f"two last batches of producer {one.producer_id} in {place}: at {known.batches[-1].last_offset} on"
                    f" broker {leader}, which leads, and at {one.batches[-1].last_offset} on broker {member}"
                )

    def _log(self, node_id: int, place: Place) -> Log | None:
        replica = self._cluster.replica(node_id, place)
        return None if replica is None else replica.log

    def _epoch_of(self, node_id: int, place: Place, offset: int) -> int | None:
        """Return the leader epoch of a record, or None if the broker does not serve or no longer has the record."""
        replica = self._cluster.replica(node_id, place)
        if replica is None or replica.log is None or offset < replica.log.log_start_offset:
            return None
        return replica.log.state.epochs.epoch_of(offset)

    def _end_offset(self, node_id: int, place: Place, topic_id: bytes) -> int | None:
        replica = self._cluster.replica(node_id, place)
        if replica is None or replica.log is None or replica.topic_id != topic_id:
            return None
        return replica.log.log_end_offset

    # ---- members of the ISR and the ELR

    def _check_members(self, topic: TopicImage, index: int, placed: PartitionImage, image: MetadataImage) -> None:
        place, partition = (topic.name, index), (topic.id, index)
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
        for name, members in (("ISR", placed.isr), ("ELR", placed.elr)):
            for member in members:
                end = self._end_offset(member, place, topic.id)
                if end is not None and not brokers[member].fenced and end < self.committed.get(partition, 0):
                    self._report(
                        f"broker {member} is in the {name} of {place}, but its log ends at {end}, below the committed"
                        f" offset {self.committed[partition]}"
                    )
        self._check_registrations(place, topic.id, placed, image)

    def _check_registrations(self, place: Place, topic_id: bytes, placed: PartitionImage, image: MetadataImage) -> None:
        """Check that no member of the ELR has crashed and registered again, since it may have lost records."""
        for member in placed.replicas:
            key = (topic_id, place[1]), member
            if member not in placed.elr:
                self._eligible.pop(key, None)
                continue
            epoch = image.cluster.brokers[member].epoch
            if epoch != self._eligible.get(key, epoch) and self._cluster.nodes[member].crashed:
                self._report(f"broker {member} has crashed and registered again, but stays in the ELR of {place}")
            self._eligible[key] = epoch

    def _report(self, finding: str) -> None:
        if finding not in self._reported:
            self._reported.add(finding)
            self._found.append(finding)
