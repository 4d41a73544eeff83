"""The application of committed metadata to the parts of a broker, in a fixed order."""

from __future__ import annotations

from functools import partial

from pykbroker.broker.directory_reports import DirectoryReports
from pykbroker.broker.parts import Parts
from pykbroker.core.group.requests import ForgetTopics
from pykbroker.core.metadata.image import Delta, MetadataImage
from pykbroker.core.names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from pykbroker.replica.partition.own_log import OwnLog
from pykbroker.server.connections import Connections
from pykbroker.server.limits import Limits, overrides


async def limits_under(parts: Parts, image: MetadataImage) -> Limits:
    """Return the limits for clients as of this metadata image."""
    config = parts.current_config.under(image)
    names = [*parts.listeners.names(config), *parts.controller_bound]
    return Limits.of(config, await parts.hosts.addresses(overrides(config)), names)


class MetadataPublisher:
    """The task that applies each metadata image to the authorizer, replicas, connections, controller and coordinators.

    The order is this one: no request is served with a right that a committed change has taken away.

    `of_clients` and `of_brokers` have the connections whose limits depend on the metadata, once the broker serves.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.reports = DirectoryReports(parts.lifecycle)
        self.of_clients: tuple[Connections, ...] = ()
        self.of_brokers: tuple[Connections, ...] = ()

    async def run(self) -> None:
        """Apply every update of the metadata until cancelled, once this broker has caught up with the log."""
        await self._parts.caught_up.wait()
        self._parts.quorum.applies = True
        async for delta in self._parts.quorum.images.updates():
            self._parts.endpoints.note()
            if self._parts.acl_authorizer is not None:
                self._parts.acl_authorizer.update(delta.image.acls.by_id)
            await self._parts.replicas.apply(delta)
            if delta.configs_changed:
                await self._parts.secured.look(partial(self._parts.current_config.under, delta.image))
            if delta.configs_changed and (self.of_clients or self.of_brokers):
                limits = await limits_under(self._parts, delta.image)
                for connections in self.of_clients:
                    connections.limit(limits)
                for connections in self.of_brokers:
                    connections.limit(limits.of_nodes())
                await self._parts.listeners.follow(self._parts.current_config.under(delta.image))
            self.reports.note(await self._parts.replicas.misplaced(delta))
            self._coordinate(delta)

    def _coordinate(self, delta: Delta) -> None:
        """Tell the coordinators which partitions of their topics this broker leads, and which topics are deleted."""
        parts, topics = self._parts, delta.image.topics
        coordinators = ((GROUP_METADATA_TOPIC, parts.groups), (TRANSACTION_STATE_TOPIC, parts.transactions))
        deleted = {topic.name for topic in delta.topics_deleted}
        for name, coordinator in coordinators:
            topic = topics.by_name.get(name)
            if name in deleted:  # a new topic of this name, perhaps in the same image, begins without the old machines
                coordinator.follow(0, {})
            if topic is not None:
                led = {index: OwnLog(partition) for index, partition in parts.replicas.led(topic.id).items()}
                coordinator.follow(len(topic.partitions), led)
        gone = frozenset(name for name in deleted if name not in topics.by_name)
        if gone:
            parts.groups.notify(ForgetTopics(gone))
