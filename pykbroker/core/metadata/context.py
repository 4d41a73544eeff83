"""What a request to the controller is decided from, beside the request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pykbroker.core.config.live_config import Dynamic
from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.draft import ImageDraft
from pykbroker.core.metadata.election import Rules
from pykbroker.core.metadata.ids import Randomness
from pykbroker.core.metadata.image import (
    BROKER_RESOURCE,
    CLUSTER_DEFAULT,
    TOPIC_RESOURCE,
    BrokerImage,
    ConfigResourceKey,
)
from pykbroker.core.metadata.record import Record
from pykbroker.core.metadata.settings import ControllerSettings
from pykbroker.core.steps import Steps
from wire.declare import Response
from wire.error_codes import ErrorCode
from wire.messages.create_topics import CreatableTopicConfigs

MetadataDecision = tuple[list[Record], Response]
"""What a request changes, and its answer."""
Deciding = Steps[MetadataDecision]
"""How a request about many things is decided: one of them a step. Nothing else may change the state meanwhile."""

RECORDS_MAX = 10_000
"""Records that one request may write, and that stand in one batch. A batch is all or nothing."""

ELR_FEATURE = "eligible.leader.replicas.version"
METADATA_FEATURE = "metadata.version"


def excessive() -> ApiError:
    """The refusal, as a whole, of a request that would write more than `RECORDS_MAX` records."""
    return ApiError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


class ControllerConfigs(Protocol):
    """What the controller must know about the configs of topics and other resources."""

    def validate(self, configs: Mapping[str, str], dynamic: Dynamic) -> None:
        """`ApiError` INVALID_CONFIG for a name or value that no topic may have."""

    def check(self, resource: ConfigResourceKey, wanted: Mapping[str, str], dynamic: Dynamic) -> None:
        """`ApiError` for configs that a topic, broker, group or subscription cannot have: all it would have."""

    def describe(self, overrides: Mapping[str, str], dynamic: Dynamic) -> list[CreatableTopicConfigs]:
        """Every config of a topic with these overrides."""


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """The state as of the last replayed record, and what the controller was built with."""

    draft: ImageDraft
    next_offset: int
    settings: ControllerSettings
    configs: ControllerConfigs
    randomness: Randomness

    def feature(self, name: str) -> int:
        """The finalized level of a feature; 0 when off."""
        return self.draft.features.get(name, 0)

    def rules(self, topic: str) -> Rules:
        """How leaders of this topic are elected."""
        settings = self.settings
        unclean = self._config(topic, "unclean.leader.election.enable")
        return Rules(
            elr_enabled=self.feature(ELR_FEATURE) > 0,
            min_isr=int(self._config(topic, "min.insync.replicas") or settings.min_insync_replicas),
            unclean=settings.unclean_leader_election_enable if unclean is None else unclean == "true",
        )

    @property
    def dynamic(self) -> Dynamic:
        """What this broker has been told since it started."""
        own = BROKER_RESOURCE, str(self.settings.node_id)
        return Dynamic(self.draft.config(CLUSTER_DEFAULT), self.draft.config(own))

    def _config(self, topic: str, name: str) -> str | None:
        dynamic = self.dynamic
        layers = self.draft.config((TOPIC_RESOURCE, topic)), dynamic.broker, dynamic.cluster
        return next((layer[name] for layer in layers if name in layer), None)

    def registered(self, broker_id: int, epoch: int) -> BrokerImage:
        """The broker if it is registered with this epoch, else `ApiError` STALE_BROKER_EPOCH."""
        broker = self.draft.brokers.get(broker_id)
        if broker is None:
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
        if broker.epoch != epoch:
            raise ApiError(
                ErrorCode.STALE_BROKER_EPOCH, f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}"
            )
        return broker

    def active(self, broker_id: int) -> bool:
        """Whether a broker may lead."""
        broker = self.draft.brokers.get(broker_id)
        return broker is not None and broker.active
