"""The lifecycle of this broker in its cluster: registration, heartbeats, unfencing, and controlled shutdown (KIP-631).

The controller may run in this process or in another one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

import trio

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.context import METADATA_FEATURE
from pykbroker.core.metadata.features import SUPPORTED
from pykbroker.core.metadata.image import Endpoint, MetadataImage
from pykbroker.core.metadata.record import CORDONED_LEVEL, DIRECTORIES_LEVEL
from pykbroker.core.topic_partition import TopicIdPartition
from pykbroker.quorum.active_controller import ActiveController
from pykbroker.quorum.identity import BrokerIdentity
from pykbroker.quorum.images import Images
from wire.error_codes import ErrorCode
from wire.messages import broker_registration, controller_registration
from wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequestDirectoryData as DirectoryData
from wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequestPartitionData as PartitionData
from wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequestTopicData as TopicData
from wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from wire.messages.broker_registration import BrokerRegistrationRequest
from wire.messages.controller_registration import ControllerRegistrationRequest
from wire.sentinels import NO_BROKER_EPOCH

L = TypeVar("L", broker_registration.Listener, controller_registration.Listener)
F = TypeVar("F", broker_registration.Feature, controller_registration.Feature)

REPEATED = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.DUPLICATE_BROKER_REGISTRATION)
"""Errors of a registration that end when the controller is back, or when the session of an earlier process ends."""
CATCH_UP_S = 0.01
"""The interval of heartbeats until the broker has caught up with the metadata log, and until it is unfenced."""
SHUT_DOWN_S = 0.05
"""The interval of heartbeats in a controlled shutdown, until all brokers have applied the new leaders.

The first two follow each other at once, which suffices without other brokers.
"""
HURRIED_S_MIN = 0.1
"""The least time between a heartbeat that failed and the next one."""
HEARTBEAT_S = 2.0
"""The default interval of heartbeats."""
REGISTRATION_S_MAX = 60.0
"""The default of initial.broker.registration.timeout.ms, in seconds: the time in which a broker must be registered."""
REGISTRATION_RETRY_S = 0.2

_UNREGISTERED = (
    ": it was unregistered, or another process has registered its node.id. It leads no partition, and joins no ISR,"
    " until it is restarted: restart it, or stop it if it was to leave the cluster."
)
OUTDATED = dict.fromkeys((ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED), _UNREGISTERED)
"""The advice after a heartbeat with a registration that has ended."""

logger = logging.getLogger(__name__)


class ReportedDirectories(Protocol):
    """The states of this broker's log directories, which heartbeats report."""

    def offline(self) -> list[bytes]:
        """Return the ids of the directories that have failed since the start."""

    def cordoned(self) -> list[bytes]:
        """Return the ids of the directories that take no new replicas."""


class HealthyDirectories:
    """Log directories that never fail. It matches `ReportedDirectories`."""

    def offline(self) -> list[bytes]:
        return []

    def cordoned(self) -> list[bytes]:
        return []


class Lifecycle:
    """The registration of this broker. `broker_epoch` is -1 until the broker is registered."""

    def __init__(
        self,
        controller: ActiveController,
        images: Images,
        identity: BrokerIdentity,
        incarnation_id: bytes,
        heartbeat_s: float = HEARTBEAT_S,
        directories: ReportedDirectories | None = None,
        registration_s_max: float = REGISTRATION_S_MAX,
    ) -> None:
        self._controller, self._images, self._identity = controller, images, identity
        self._incarnation_id, self._heartbeat_s = incarnation_id, heartbeat_s
        self._registration_s_max = registration_s_max
        self._applies = self._stopping = False
        self._directories = directories or HealthyDirectories()
        self._reported: frozenset[bytes] = frozenset()
        self._hurried, self._beaten = trio.Event(), trio.Event()
        self.broker_epoch = NO_BROKER_EPOCH

    async def register_controller(self, endpoints: Sequence[Endpoint]) -> None:
        """Write the controller's endpoints to the metadata log, for other programs that read it.

        There may be no endpoints.
        """
        await self._controller.ask(
            ControllerRegistrationRequest(
                controller_id=self._identity.node_id,
                incarnation_id=self._incarnation_id,
                listeners=listeners(controller_registration.Listener, endpoints),
                features=features(controller_registration.Feature),
            )
        )

    async def register(
        self, endpoints: Sequence[Endpoint], rack: str | None, *, clean: bool, clean_epoch: int = NO_BROKER_EPOCH
    ) -> int:
        """Register as a fenced broker and return the broker epoch.

        `clean` says that the last run shut down cleanly, and `clean_epoch` in which epoch, -1 if unknown. While another
        incarnation of this broker is registered, or the controller does not respond, the request is repeated for
        `initial.broker.registration.timeout.ms`. Raise ApiError with the last reason after that.
        """
        last = self._images.committed.cluster.brokers.get(self._identity.node_id)
        # The marker of an older Kafka has no broker epoch.
        if clean and clean_epoch == NO_BROKER_EPOCH and last is not None:
            clean_epoch = last.epoch
        request = self._registration(endpoints, rack, clean_epoch if clean else NO_BROKER_EPOCH)
        refusal = ApiError(ErrorCode.REQUEST_TIMED_OUT, "the controller did not respond in time")
        waiting = False
        with trio.move_on_after(self._registration_s_max):
            while True:
                try:
                    self.broker_epoch = (await self._controller.ask(request)).broker_epoch
                except ApiError as error:
                    if error.code not in REPEATED:
                        raise
                    refusal = error
                    if not waiting:
                        logger.info("the controller does not register this broker yet (%s): waiting", error)
                        waiting = True
                    await trio.sleep(REGISTRATION_RETRY_S)
                else:
                    return self.broker_epoch
        raise refusal

    def _registration(
        self, endpoints: Sequence[Endpoint], rack: str | None, clean_epoch: int
    ) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=self._identity.node_id,
            cluster_id=self._identity.cluster_id,
            incarnation_id=self._incarnation_id,
            rack=rack,
            log_dirs=list(self._identity.directory_ids),
            previous_broker_epoch=clean_epoch,
            listeners=listeners(broker_registration.Listener, endpoints),
            features=features(broker_registration.Feature),
        )

    async def wait_caught_up(self) -> None:
        """Send heartbeats until this broker has read the metadata log up to its registration."""
        while True:
            if (await self._beat_patiently()).is_caught_up:
                return
            await trio.sleep(CATCH_UP_S)

    async def unfence(self) -> None:
        """Unfence the broker and wait until it leads its partitions again, each in a new leader epoch.

        The controller may fence the broker again before it has applied that it was unfenced, so heartbeats go on.
        """
        while not self._is_unfenced(self._images.current):
            if (await self._beat_patiently(want_fence=False)).is_fenced:
                await trio.sleep(CATCH_UP_S)
                continue
            with trio.move_on_after(self._heartbeat_s):
                await self._images.wait_until(self._is_unfenced)
        await self._images.wait_for(self._images.committed.offset)
        self._applies = True

    def _is_unfenced(self, image: MetadataImage) -> bool:
        broker = image.cluster.brokers.get(self._identity.node_id)
        return broker is not None and broker.epoch == self.broker_epoch and not broker.fenced

    async def run(self) -> None:
        """Send heartbeats until the controlled shutdown. A broker that was fenced is unfenced by the next one."""
        failing: ErrorCode | None = None
        while not self._stopping:
            with trio.move_on_after(self._heartbeat_s):
                await self._hurried.wait()
            self._hurried = trio.Event()
            if self._stopping:
                return
            try:
                await self._beat(want_fence=False)
            except ApiError as error:
                if error.code is not failing:
                    logger.warning("a heartbeat of this broker failed: %s%s", error, OUTDATED.get(error.code, ""))
                failing = error.code
                await trio.sleep(HURRIED_S_MIN)
            else:
                failing = None

    async def wait_reported(self, directory_id: bytes) -> None:
        """Send a heartbeat at once, and wait until one has reported this failed log directory (KIP-858)."""
        while directory_id not in self._reported:
            self._hurried.set()
            await self._beaten.wait()

    async def assign(self, placed: Mapping[TopicIdPartition, bytes]) -> None:
        """Report to the controller in which log directory each of these partitions is.

        Nothing is sent before the registration, nor in a cluster whose metadata.version is older than log directory
        ids.
        """
        level = self._images.committed.features.level(METADATA_FEATURE)
        if not placed or self.broker_epoch == NO_BROKER_EPOCH or level < DIRECTORIES_LEVEL:
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
        self._stopping, pause_s = True, 0.0
        # A broker that also wants to be fenced may stop at once, before others know the leaders that replace it.
        while not (await self._beat_patiently(want_fence=False, want_shut_down=True)).should_shut_down:
            await trio.sleep(pause_s)
            pause_s = SHUT_DOWN_S

    async def _beat_patiently(
        self, *, want_fence: bool = True, want_shut_down: bool = False
    ) -> BrokerHeartbeatResponse:
        """Return the response to a heartbeat, which is repeated while the controller does not respond."""
        while True:
            try:
                return await self._beat(want_fence=want_fence, want_shut_down=want_shut_down)
            except ApiError as error:
                if error.code != ErrorCode.REQUEST_TIMED_OUT:
                    raise

    async def _beat(self, *, want_fence: bool = True, want_shut_down: bool = False) -> BrokerHeartbeatResponse:
        # Images may not be applied before the broker is unfenced, and it must count as caught up even so.
        image = self._images.current if self._applies else self._images.committed
        level = self._images.committed.features.level(METADATA_FEATURE)
        offline = self._directories.offline() if level >= DIRECTORIES_LEVEL else []
        response = await self._controller.ask(
            BrokerHeartbeatRequest(
                broker_id=self._identity.node_id,
                broker_epoch=self.broker_epoch,
                current_metadata_offset=image.offset,
                want_fence=want_fence,
                want_shut_down=want_shut_down,
                offline_log_dirs=offline,
                cordoned_log_dirs=self._directories.cordoned() if level >= CORDONED_LEVEL else None,
            )
        )
        self._reported = frozenset(offline)
        self._beaten.set()
        self._beaten = trio.Event()
        return response


def listeners(kind: type[L], endpoints: Sequence[Endpoint]) -> list[L]:
    """Return the endpoints as the listeners of a registration."""
    return [
        kind(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
        for each in endpoints
    ]


def features(kind: type[F]) -> list[F]:
    """Return the features that this version supports, for a registration."""
    return [
        kind(name=name, min_supported_version=least, max_supported_version=most)
        for name, (least, most) in SUPPORTED.items()
    ]
