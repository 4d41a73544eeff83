"""The topics of a consumer: what metadata says about the subscription."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from pykbroker.client.cluster import Cluster, ClusterPartition
from pykbroker.client.errors import AuthenticationError, Disconnected, UnsupportedVersion
from pykbroker.client.metadata import ClusterMetadata
from pykbroker.client.nodes import Nodes
from pykbroker.core.consumer.assignors.assignor import ReplicaRacks
from pykbroker.core.consumer.errors import OffsetsOutOfRange, TopicsUnauthorized
from pykbroker.core.consumer.position import NO_LEADER_OR_EPOCH, PartitionLeader
from pykbroker.core.consumer.subscription import ConsumerSubscription, SubscriptionKind, reset_recreated
from pykbroker.core.errors import ApiError
from pykbroker.core.topic_partition import TopicPartition
from wire.api import ApiKey
from wire.declare import NIL
from wire.error_codes import ErrorCode

VALIDATION_VERSION_MIN = 3
"""The first version of OffsetForLeaderEpoch that consumers may use (KIP-320)."""


class ConsumerTopics:
    """The topics of a subscription, kept up to date with the metadata.

    `failed` is called with an error for the user, and `changed` after each update of the metadata.
    """

    def __init__(
        self,
        metadata: ClusterMetadata,
        nodes: Nodes,
        subscription: ConsumerSubscription,
        failed: Callable[[Exception], None],
        changed: Callable[[], None],
        *,
        excludes_internal: bool,
    ) -> None:
        self._metadata, self._nodes, self._subscription = metadata, nodes, subscription
        self._failed, self._changed, self._excludes_internal = failed, changed, excludes_internal
        self._borrowed: Counter[str] = Counter()
        """The topics outside the subscription that calls of the user look up now."""
        self._matches: Callable[[str], bool] | None = None
        metadata.call_when_updated(self._update)

    @property
    def cluster(self) -> Cluster:
        """Return the current view of the cluster."""
        return self._metadata.cluster

    # ---- the subscription

    def subscribe_pattern(self, matches: Callable[[str], bool]) -> None:
        """Subscribe to the topics that match, now and after each update of the metadata."""
        self._subscription.subscribe_pattern(matches)
        self._matches = matches
        self._metadata.use_matching(lambda name, is_internal: self._takes(name, is_internal=is_internal))
        self._match()
        self.follow()

    def follow(self) -> None:
        """Request the metadata of the topics that the subscription now needs. Call this after each change of it."""
        if self._subscription.kind is not SubscriptionKind.PATTERN and self._matches is not None:
            self._matches = None
            self._metadata.use_matching(None)
        self._metadata.use_only(self._subscription.metadata_topics | self._borrowed.keys())

    def _takes(self, name: str, *, is_internal: bool) -> bool:
        return self._matches is not None and self._matches(name) and not (is_internal and self._excludes_internal)

    def _match(self) -> None:
        topics = self.cluster.topics.values()
        self._subscription.update_matched(
            topic.name for topic in topics if not topic.error and self._takes(topic.name, is_internal=topic.internal)
        )

    @contextmanager
    def borrowed(self, topics: Iterable[str]) -> Iterator[None]:
        """Keep the metadata of topics outside the subscription while the block runs."""
        names = Counter(set(topics))
        self._borrowed += names
        self.follow()
        try:
            yield
        finally:
            self._borrowed -= names
            self.follow()

    # ---- what the metadata says

    def id_of(self, name: str) -> bytes:
        """Return the id of a topic, or the nil id if it is unknown."""
        return id_in(self.cluster, name)

    def name_of(self, topic_id: bytes) -> str | None:
        """Return the name of a topic id, or None if it is unknown."""
        return self.cluster.topic_names.get(topic_id)

    def leader_of(self, partition: TopicPartition) -> PartitionLeader:
        """Return the leader of a partition and its leader epoch."""
        found = self.cluster.partition(partition)
        if found is None:
            return NO_LEADER_OR_EPOCH
        return PartitionLeader(self.cluster.leader(partition), found.leader_epoch)

    def is_online(self, partition: TopicPartition, node: int) -> bool:
        """Whether a node has an online replica of a partition."""
        found = self.cluster.partition(partition)
        return (
            found is not None and node in self.cluster.brokers and node in found.replicas and node not in found.offline
        )

    def replica_racks(self, topics: Iterable[str]) -> ReplicaRacks:
        """Return the racks of the replicas of topics with partitions, as assignors need them."""
        found = {name: self.cluster.topics[name] for name in topics if name in self.cluster.topics}
        return {
            name: [self._racks(each) for each in topic.partitions] for name, topic in found.items() if topic.partitions
        }

    def _racks(self, partition: ClusterPartition) -> frozenset[str]:
        brokers = self.cluster.brokers
        racks = (brokers[node].rack for node in partition.replicas if node in brokers)
        return frozenset(rack for rack in racks if rack)

    async def load(self, topics: Iterable[str]) -> ReplicaRacks:
        """Return the racks of the replicas of topics, once metadata describes all of them."""
        wanted = frozenset(topics)
        self.follow()
        if not all(name in self.cluster.topics for name in wanted):
            version = self._metadata.request_update()
            while self._metadata.version <= version:
                with suppress(AuthenticationError):  # the user's next poll raises it
                    await self._metadata.wait_newer(version)
        return self.replica_racks(wanted)

    # ---- updates

    def _update(self, old: Cluster, cluster: Cluster) -> None:
        if self._subscription.kind is SubscriptionKind.PATTERN:
            self._match()
        try:
            reset_recreated(self._subscription, partial(id_in, old), partial(id_in, cluster))
        except OffsetsOutOfRange as error:
            self._failed(error)
        self._subscription.leaders_changed(self.leader_of, self._validates)
        self._check(cluster)
        self._changed()

    def _validates(self, node: int) -> bool:
        """Whether a broker can validate positions. A broker that is not connected is assumed to."""
        connection = self._nodes.node(node).link.current
        if connection is None:
            return True
        try:
            return connection.newest_version(ApiKey.OFFSET_FOR_LEADER_EPOCH) >= VALIDATION_VERSION_MIN
        except (Disconnected, UnsupportedVersion):
            return False

    def _check(self, cluster: Cluster) -> None:
        """Report topics of the subscription that the client may not read, or whose name is not allowed."""
        if denied := with_error(cluster, self._subscription.topics, ErrorCode.TOPIC_AUTHORIZATION_FAILED):
            self._failed(TopicsUnauthorized(denied))
        for name in with_error(cluster, self._subscription.topics, ErrorCode.INVALID_TOPIC_EXCEPTION):
            self._failed(ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"the topic name '{name}' is not allowed"))


def with_error(cluster: Cluster, topics: Iterable[str], code: ErrorCode) -> list[str]:
    """Return the topics that the metadata has with an error."""
    return [name for name in topics if (topic := cluster.topics.get(name)) is not None and topic.error == code]


def id_in(cluster: Cluster, name: str) -> bytes:
    """Return the id of a topic in a view, or the nil id if it is unknown."""
    topic = cluster.topics.get(name)
    return NIL if topic is None else topic.topic_id
