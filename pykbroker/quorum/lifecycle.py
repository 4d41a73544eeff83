"""The lifecycle of this broker in its cluster: registration, unfencing, and controlled shutdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pykbroker.core.metadata.context import METADATA_FEATURE
from pykbroker.core.metadata.features import SUPPORTED
from pykbroker.core.metadata.ids import Randomness, new_id
from pykbroker.core.metadata.image import Endpoint
from pykbroker.core.metadata.record import DIRECTORIES_LEVEL
from pykbroker.quorum.controller import Controller
from pykbroker.quorum.identity import BrokerIdentity
from wire.messages import broker_registration, controller_registration
from wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequestDirectoryData as DirectoryData
from wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequestPartitionData as PartitionData
from wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequestTopicData as TopicData
from wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from wire.messages.broker_registration import BrokerRegistrationRequest
from wire.messages.controller_registration import ControllerRegistrationRequest

NOT_REGISTERED = -1


class Lifecycle:
    """The registration of this broker. `broker_epoch` is -1 until the broker is registered."""

    def __init__(self, controller: Controller, identity: BrokerIdentity, randomness: Randomness) -> None:
        self._controller, self._identity = controller, identity
        self._incarnation_id = new_id(randomness)
        self.broker_epoch = NOT_REGISTERED

    async def register_controller(self, endpoints: Sequence[Endpoint]) -> None:
        """Write the controller's endpoints to the metadata log, for other programs that read it.

        There may be no endpoints.
        """
        await self._controller.ask(
            ControllerRegistrationRequest(
                controller_id=self._identity.node_id,
                incarnation_id=self._incarnation_id,
                listeners=[
                    controller_registration.Listener(
                        name=endpoint.name,
                        host=endpoint.host,
                        port=endpoint.port,
                        security_protocol=endpoint.security_protocol,
                    )
                    for endpoint in endpoints
                ],
                features=[
                    controller_registration.Feature(name=name, min_supported_version=least, max_supported_version=most)
                    for name, (least, most) in SUPPORTED.items()
                ],
            )
        )

    async def register(self, endpoints: Sequence[Endpoint], rack: str | None, *, clean: bool) -> int:
        """Register as a fenced broker and return the broker epoch. `clean` says that the last run shut down cleanly."""
        last = self._controller.images.committed.cluster.brokers.get(self._identity.node_id)
        response = await self._controller.ask(
            BrokerRegistrationRequest(
                broker_id=self._identity.node_id,
                cluster_id=self._identity.cluster_id,
                incarnation_id=self._incarnation_id,
                rack=rack,
                log_dirs=list(self._identity.directory_ids),
                previous_broker_epoch=last.epoch if clean and last is not None else NOT_REGISTERED,
                listeners=[
                    broker_registration.Listener(
                        name=endpoint.name,
                        host=endpoint.host,
                        port=endpoint.port,
                        security_protocol=endpoint.security_protocol,
                    )
                    for endpoint in endpoints
                ],
                features=[
                    broker_registration.Feature(name=name, min_supported_version=least, max_supported_version=most)
                    for name, (least, most) in SUPPORTED.items()
                ],
            )
        )
        self.broker_epoch = response.broker_epoch
        return self.broker_epoch

    async def unfence(self) -> None:
        """Unfence the broker and wait until it leads its partitions again, each in a new leader epoch."""
        await self._beat(want_fence=False)
        await self._controller.images.wait_for(self._controller.images.committed.offset)

    async def assign(self, placed: Mapping[tuple[bytes, int], bytes]) -> None:
        """Report to the controller in which log directory each of these partitions (topic id, index) is.

        Nothing is sent before the registration, nor in a cluster whose metadata.version is older than log directory
        ids.
        """
        level = self._controller.images.committed.features.level(METADATA_FEATURE)
        if not placed or self.broker_epoch == NOT_REGISTERED or level < DIRECTORIES_LEVEL:
            return
        directories: dict[bytes, dict[bytes, list[int]]] = {}
        for (topic_id, index), directory_id in placed.items():
            directories.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
        await self._controller.ask(
            AssignReplicasToDirsRequest(
                broker_id=self._identity.node_id,
                broker_epoch=self.broker_epoch,
                directories=[
                    DirectoryData(
                        id=directory_id,
                        topics=[
                            TopicData(
                                topic_id=topic_id,
                                partitions=[PartitionData(partition_index=index) for index in indexes],
                            )
                            for topic_id, indexes in topics.items()
                        ],
                    )
                    for directory_id, topics in directories.items()
                ],
            )
        )

    async def shut_down(self) -> None:
        """Wait until the controller has moved or ended this broker's leaderships and fenced it.

        The logs may be closed after that.
        """
        while not (await self._beat(want_shut_down=True)).should_shut_down:
            pass

    async def _beat(self, *, want_fence: bool = True, want_shut_down: bool = False) -> BrokerHeartbeatResponse:
        return await self._controller.ask(
            BrokerHeartbeatRequest(
                broker_id=self._identity.node_id,
                broker_epoch=self.broker_epoch,
                current_metadata_offset=self._controller.images.committed.offset,
                want_fence=want_fence,
                want_shut_down=want_shut_down,
            )
        )
