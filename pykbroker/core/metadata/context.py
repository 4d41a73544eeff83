"""The state and the settings on which the controller decides a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from pykbroker.core.config.live_config import Dynamic
from pykbroker.core.errors import ApiError
from pykbroker.core.ids import UNASSIGNED, Randomness
from pykbroker.core.metadata.draft import ImageDraft
from pykbroker.core.metadata.election import Rules
from pykbroker.core.metadata.image import (
    BROKER_RESOURCE,
    CLUSTER_DEFAULT,
    TOPIC_RESOURCE,
    BrokerImage,
    ConfigResourceKey,
    PartitionImage,
)
from pykbroker.core.metadata.partition_index import PartitionIndex
from pykbroker.core.metadata.record import Record
from pykbroker.core.metadata.sessions import BrokerSessions
from pykbroker.core.metadata.settings import ControllerSettings
from pykbroker.core.steps import Steps
from wire.declare import Response
from wire.error_codes import ErrorCode
from wire.messages.create_topics import CreatableTopicConfigs

MetadataDecision = tuple[list[Record], Response]
"""The records that a request writes, and its response."""
Deciding = Steps[MetadataDecision]
"""A decision in steps, one for each item of the request. No other decision may run until it ends."""

RECORDS_MAX = 10_000
"""The most records that one request may write. They form one batch, which is atomic."""

ELR_FEATURE = "eligible.leader.replicas.version"
METADATA_FEATURE = "metadata.version"


def excessive() -> ApiError:
    """Return the error for a request that would write more than `RECORDS_MAX` records."""
    return ApiError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


class ControllerConfigs(Protocol):
    """The functions of `core.config` that the controller calls."""

    def validate(self, configs: Mapping[str, str], dynamic: Dynamic) -> None:
        """Raise ApiError INVALID_CONFIG for a config or a value that no topic may have."""

    def check(self, resource: ConfigResourceKey, wanted: Mapping[str, str], dynamic: Dynamic) -> None:
        """Raise ApiError if the resource cannot have these configs. `wanted` are all configs that it would have."""

    def describe(self, overrides: Mapping[str, str], dynamic: Dynamic) -> list[CreatableTopicConfigs]:
        """Return every config of a topic that has these overrides."""


class ControllerContext(msgspec.Struct, frozen=True):
    """The state after the last replayed record, and the settings of the controller.

    `now_ms` is the time on the monotonic clock. `changed` has brokers as the records of this decision change them; None
    stands for an unregistered one.
    """

    draft: ImageDraft
    next_offset: int
    settings: ControllerSettings
    configs: ControllerConfigs
    randomness: Randomness
    index: PartitionIndex
    sessions: BrokerSessions
    now_ms: float
    changed: Mapping[int, BrokerImage | None] = {}

    def changing(self, broker_id: int, broker: BrokerImage | None) -> ControllerContext:
        """Return a context in which the broker is as the records of this decision change it."""
        return msgspec.structs.replace(self, changed={**self.changed, broker_id: broker})

    def broker(self, broker_id: int) -> BrokerImage | None:
        """Return the broker, or None if it is not registered."""
        if broker_id in self.changed:
            return self.changed[broker_id]
        return self.draft.brokers.get(broker_id)

    def feature(self, name: str) -> int:
        """Return the finalized level of a feature, 0 if it is off."""
        return self.draft.features.get(name, 0)

    @property
    def elr_enabled(self) -> bool:
        """Whether eligible leader replicas are recorded (KIP-966)."""
        return self.feature(ELR_FEATURE) > 0

    def rules(self, topic: str) -> Rules:
        """Return the rules of leader election for the topic."""
        settings = self.settings
        unclean = self._config(topic, "unclean.leader.election.enable")
        return Rules(
            elr_enabled=self.elr_enabled,
            min_isr=int(self._config(topic, "min.insync.replicas") or settings.min_insync_replicas),
            unclean=settings.unclean_leader_election_enable if unclean is None else unclean == "true",
        )

    @property
    def dynamic(self) -> Dynamic:
        """Return the dynamic configs of this broker."""
        own = BROKER_RESOURCE, str(self.settings.node_id)
        return Dynamic(self.draft.config(CLUSTER_DEFAULT), self.draft.config(own))

    def _config(self, topic: str, name: str) -> str | None:
        dynamic = self.dynamic
        layers = self.draft.config((TOPIC_RESOURCE, topic)), dynamic.broker, dynamic.cluster
        return next((layer[name] for layer in layers if name in layer), None)

    def registered(self, broker_id: int, epoch: int) -> BrokerImage:
        """Return the registered broker. Raise ApiError STALE_BROKER_EPOCH if no broker has this id and epoch."""
        broker = self.draft.brokers.get(broker_id)
        if broker is None:
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
        if broker.epoch != epoch:
            raise ApiError(
                ErrorCode.STALE_BROKER_EPOCH, f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}"
            )
        return broker

    def active(self, broker_id: int) -> bool:
        """Whether the broker may lead partitions."""
        broker = self.broker(broker_id)
        return broker is not None and broker.active

    def usable(self, partition: PartitionImage, broker_id: int) -> bool:
        """Whether the broker may lead partitions, and its replica of this partition is in an online directory."""
        broker = self.broker(broker_id)
        return (
            broker is not None
            and broker.active
            and broker_id in partition.replicas
            and broker.is_online(partition.directory(broker_id))
        )

    def default_directory(self, broker_id: int) -> bytes:
        """Return the directory of new replicas of a broker, or UNASSIGNED if the broker chooses it."""
        broker = self.broker(broker_id)
        return UNASSIGNED if broker is None else broker.default_directory
