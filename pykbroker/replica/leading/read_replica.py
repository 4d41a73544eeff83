"""The choice of the replica from which a consumer reads: one in the consumer's own rack (KIP-392)."""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.core.metadata.image import MetadataImage
from pykbroker.replica.partition.consumer_reading import Prefer
from pykbroker.replica.partition.partition import Partition
from wire.sentinels import NO_NODE

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The only value of replica.selector.class with an effect."""


class RackAwareSelector:
    """The selector `RackAwareReplicaSelector` of Kafka. `image` returns the current metadata, with the brokers'
    racks."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image

    def within(self, rack: str) -> Prefer:
        """Return the function that names the replica from which a consumer in `rack` should fetch."""
        return lambda partition, offset: self.choose(partition, rack, offset)

    def choose(self, partition: Partition, rack: str, offset: int) -> int:
        """Return the broker from which a consumer in `rack` should fetch `offset`, or -1 for the leader.

        It is a member of the ISR in that rack which has the offset, with the most records if there are several.
        """
        leading = partition.leading
        brokers = self._image().cluster.brokers
        own = brokers.get(partition.broker.node_id)
        if leading is None or (own is not None and own.rack == rack):
            return NO_NODE
        candidates = [
            # Of equal replicas, the one with the lowest broker id is chosen.
            (state.log_end_offset, state.caught_up_ms, -broker_id)
            for broker_id, state in leading.followers.items()
            if broker_id in leading.isr
            and broker_id in partition.broker.active
            and brokers[broker_id].rack == rack
            and state.log_start_offset <= offset <= state.log_end_offset
        ]
        return -max(candidates)[2] if candidates else NO_NODE
