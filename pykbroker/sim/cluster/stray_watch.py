"""The watch over replicas that brokers set aside: a broker sets no replica aside that the metadata assigns to it.

A broker judges its replicas once it has read the metadata up to its registration. A replica that was assigned to it at
that time, and still is when its directory is renamed, is thus no stray.
"""

from __future__ import annotations

from collections.abc import Iterator

from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.topic_partition import TopicIdPartition
from pykbroker.sim.cluster.nodes import SimCluster
from pykbroker.storage.directory.damaged_logs import DAMAGED
from pykbroker.storage.files.partition_directory import ASIDE, METADATA, decode_metadata
from wire.declare import NIL

AssignedReplica = tuple[int, TopicIdPartition]
"""A replica: the id of its broker, and its partition."""


class StrayWatch:
    """A watch over the directories of all brokers. It looks at each directory once."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._image: MetadataImage | None = None
        self._since: dict[AssignedReplica, int] = {}
        """The offset of the image in which each replica was first seen, since when it has been assigned."""
        self._seen: set[tuple[int, str]] = set()
        self.damaged: list[str] = []
        """A sentence for each replica that was set aside as damaged."""

    def look(self, image: MetadataImage) -> Iterator[str]:
        """Yield a finding for each directory that was set aside, though the controller's `image` has its replica."""
        if image is not self._image:
            self._image, before = image, self._since
            self._since = {each: before.get(each, image.offset) for each in assignments(image)}
        for node_id, node in self._cluster.nodes.items():
            for name in node.machine.directories():
                if name.endswith("-stray") and ASIDE.fullmatch(name) and (node_id, name) not in self._seen:
                    self._seen.add((node_id, name))
                    yield from self._judge(node_id, name, image)

    def _judge(self, node_id: int, name: str, image: MetadataImage) -> Iterator[str]:
        machine = self._cluster.nodes[node_id].machine
        if list(machine.contents(name, DAMAGED)):
            self.damaged.append(f"broker {node_id} set {name} aside as damaged")
            return
        index = int(name.rpartition(".")[0].rpartition("-")[2])
        for topic_id in map(decode_metadata, machine.contents(name, METADATA)):
            since = self._since.get((node_id, (topic_id or NIL, index)))
            if since is not None and since <= image.cluster.brokers[node_id].epoch:
                yield f"broker {node_id} set {name} aside, though the replica is assigned to it"


def assignments(image: MetadataImage) -> Iterator[AssignedReplica]:
    """Yield all replicas of an image."""
    for topic_id, topic in image.topics.by_id.items():
        for index, placed in topic.partitions.items():
            for node_id in placed.replicas:
                yield node_id, (topic_id, index)
