"""The topics of a producer: their partitions and leaders by the metadata, and the wait for them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import trio

from pykbroker.client.cluster import Cluster
from pykbroker.client.metadata import ClusterMetadata
from pykbroker.core.errors import ApiError
from pykbroker.core.names import check_topic_name
from pykbroker.core.producer.accumulator import Leader
from pykbroker.core.producer.errors import MetadataTimeout, UnknownPartition
from pykbroker.core.producer.intake import Intake, TopicIntake
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.producer.settings import ProducerSettings
from wire.declare import NIL
from wire.error_codes import ErrorCode

FATAL_TOPIC_ERRORS = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
"""The errors of a topic that no refresh of the metadata removes."""


class ProducerTopics:
    """The topics that the intake knows, kept up to date with the metadata. `changed` is called after an update."""

    def __init__(
        self,
        metadata: ClusterMetadata,
        intake: Intake,
        settings: ProducerSettings,
        lock: AbstractContextManager[Any],
        changed: Callable[[], None],
    ) -> None:
        self._metadata, self._intake, self._settings = metadata, intake, settings
        self._lock, self._changed = lock, changed
        self.leaders: dict[TopicPartition, Leader] = {}
        self.leading: frozenset[int] = frozenset()
        """The brokers that lead a partition."""
        metadata.call_when_updated(self._update)

    def find(self, name: str, partition: int | None) -> TopicIntake | None:
        """Return a topic that is known to have the partition, or None. This may be called in any thread."""
        found = self._intake.topics.get(name)
        return found if found is not None and found.has(partition) else None

    def use(self, name: str) -> None:
        """Keep the metadata of a topic, which is requested if it is unknown.

        Raise TypeError for a name that is no text, and ApiError for a name that no topic may have.
        """
        is_unknown = name not in self._intake.topics
        if is_unknown:
            if not isinstance(name, str):
                raise TypeError(f"the topic {name!r} is of type {type(name).__name__}: pass its name as str")
            check_topic_name(name)
        self._metadata.use(name)
        if is_unknown:
            with self._lock:
                self._update_intake(name)

    def id_of(self, name: str) -> bytes:
        """Return the id of a topic, or the nil id if it is unknown."""
        topic = self._metadata.cluster.topics.get(name)
        return NIL if topic is None else topic.topic_id

    async def wait(self, name: str, partition: int | None, timeout_s: float) -> TopicIntake:
        """Return a topic once it is known to have the partition.

        Raise MetadataTimeout after `timeout_s`, and ApiError if the broker refuses to describe the topic. Raise
        UnknownPartition at once for a negative partition. The errors of the name are those of `use`.
        """
        self.use(name)
        if partition is not None and partition < 0:
            raise UnknownPartition(f"topic '{name}' has no partition {partition}: partitions begin at 0")
        found = self.find(name, partition)
        with trio.move_on_after(timeout_s):
            while found is None:
                await self._metadata.wait_newer(self._metadata.request_update_for(name))
                check_topic(self._metadata.cluster, name)
                self.use(name)
                found = self.find(name, partition)
            return found
        raise MetadataTimeout(missing(self._metadata, name, partition, self._settings))

    def _update(self, _old: Cluster, cluster: Cluster) -> None:
        with self._lock:
            for name in list(self._intake.topics):
                self._update_intake(name)
        self.leaders = {
            partition: Leader(leader, each.leader_epoch)
            for topic in cluster.topics.values()
            for each in topic.partitions
            if (leader := cluster.leader(partition := TopicPartition(topic.name, each.index))) is not None
        }
        self.leading = frozenset(leader.node for leader in self.leaders.values())
        self._changed()

    def _update_intake(self, name: str) -> None:
        topic = self._metadata.cluster.topics.get(name)
        if topic is None or not topic.partitions:
            self._intake.topics.pop(name, None)
        else:
            available = [each.index for each in topic.partitions if each.leader is not None]
            self._intake.update(name, len(topic.partitions), available)


def check_topic(cluster: Cluster, name: str) -> None:
    """Raise ApiError if no later metadata will have the topic."""
    topic = cluster.topics.get(name)
    if topic is not None and topic.error in FATAL_TOPIC_ERRORS:
        code = ErrorCode(topic.error)
        raise ApiError(code, f"topic '{name}': {code.name}")


def missing(metadata: ClusterMetadata, name: str, partition: int | None, settings: ProducerSettings) -> str:
    """Return why a topic or partition is unknown after `max_block_ms`."""
    cluster, waited = metadata.cluster, f"after max_block_ms={settings.max_block_ms}"
    topic = cluster.topics.get(name)
    if partition is not None and topic is not None and topic.partitions:
        return f"topic '{name}' has {len(topic.partitions)} partitions and no partition {partition} {waited}"
    if cluster.is_bootstrap:
        servers = ", ".join(map(str, settings.addresses()))
        cause = f": {metadata.connection_failure}" if metadata.connection_failure else ""
        return f"no broker of bootstrap_servers={servers} has answered {waited}{cause}"
    return f"topic '{name}' is unknown to the cluster {waited}"
