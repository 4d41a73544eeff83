"""The application of committed metadata to the parts of a broker, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import trio

from pykbroker.broker.directory_reports import DirectoryReports
from pykbroker.broker.parts import Parts
from pykbroker.core.group.requests import ForgetTopics
from pykbroker.core.metadata.image import BROKER_RESOURCE, Delta, MetadataImage
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
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.reports = DirectoryReports(parts.lifecycle)
        self._connections: Sequence[Connections] = ()
        self._image: MetadataImage | None = None
        """The newest image whose configs the connections and the listeners get."""
        self._configuring = trio.Lock()

    async def run(self) -> None:
        """Apply every update of the metadata until cancelled, once this broker has caught up with the log."""
        await self._parts.caught_up.wait()
        self._parts.quorum.applies = True
        async for delta in self._parts.quorum.images.updates():
            self._parts.endpoints.note()
            if self._parts.acl_authorizer is not None:
                self._parts.acl_authorizer.update(delta.image.acls.by_id)
            if any(kind == BROKER_RESOURCE for kind, _ in delta.configs_changed):
                await self._parts.current_config.read(delta.image)
            await self._parts.replicas.apply(delta)
            if delta.configs_changed:
                await self._parts.secured.look(partial(self._parts.current_config.under, delta.image))
                self._image = delta.image
                await self._configure()
            self.reports.note(await self._parts.replicas.misplaced(delta))
            self._coordinate(delta)

    async def serve(self, of_clients: Connections, of_brokers: Iterable[Connections]) -> None:
        """Let further changes of configs apply to these connections and to the listeners, and those so far at once."""
        self._connections = of_clients, *of_brokers
        await self._configure()

    async def _configure(self) -> None:
        async with self._configuring:  # the image is read inside, so that an older one never follows a newer one
            image = self._image
            if not self._connections or image is None:
                return
            limits = await limits_under(self._parts, image)
            of_clients, *of_brokers = self._connections
            of_clients.limit(limits)
            for connections in of_brokers:
                connections.limit(limits.of_nodes())
            await self._parts.listeners.follow(self._parts.current_config.under(image))

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
