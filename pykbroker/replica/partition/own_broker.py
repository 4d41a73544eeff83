"""The state of this broker that its partitions share: broker epochs, counters, and events for the tasks of `care`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import trio

from pykbroker.core.log.refused_sequences import RefusalLimit
from pykbroker.core.metadata.image import ClusterImage
from wire.sentinels import NO_BROKER_EPOCH, NO_NODE

LAG_MS_MAX = 30_000
"""The default of replica.lag.time.max.ms."""


class OwnBroker:
    """Broker `node_id`, which all its partitions share.

    `active` has the broker epochs of the brokers that are neither fenced nor stopping, and `registered` those of all
    brokers that have registered. `isr_expansions` and `isr_shrinks` count the proposed changes of ISRs that were
    committed, and `isr_refusals` those that the controller refused. `damage` is set when a replica is found damaged,
    and when the metadata of a replica in repair has changed. `refusal` is set when a replica has refused an append for
    lack of room, or when its log could not be opened. `refused_sequences_limit` bounds the refused sequences that all
    partitions remember.
    """

    def __init__(self, node_id: int = NO_NODE, lag_ms_max: float = LAG_MS_MAX) -> None:
        self.node_id, self.lag_ms_max = node_id, lag_ms_max
        self.broker_epoch = NO_BROKER_EPOCH
        self.active: Mapping[int, int] = {}
        self.registered: Mapping[int, int] = {}
        self.isr_expansions = self.isr_shrinks = self.isr_refusals = 0
        self.damage, self.refusal = trio.Event(), trio.Event()
        self.refused_sequences_limit = RefusalLimit()

    @property
    def now_ms(self) -> float:
        """Return the time of trio's clock in ms."""
        return trio.current_time() * 1000

    def apply(self, cluster: ClusterImage) -> None:
        """Take over the broker epochs of the metadata."""
        self.active = {broker.id: broker.epoch for broker in cluster.active()}
        self.registered = {broker.id: broker.epoch for broker in cluster.brokers.values()}
        self.broker_epoch = self.registered.get(self.node_id, NO_BROKER_EPOCH)

    def count_isr_change(self, before: Sequence[int], after: Sequence[int]) -> None:
        """Count a proposed change that was committed, by the ISRs before and after it."""
        self.isr_expansions += len(after) > len(before)
        self.isr_shrinks += len(after) < len(before)
