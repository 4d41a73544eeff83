"""The transaction coordinator of a broker: its state machines and its marker writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio

from pykbroker.coordinator.batches import Batches
from pykbroker.coordinator.cluster import ClusterLeaders
from pykbroker.coordinator.endings import Endings
from pykbroker.coordinator.markers import MarkerWriter
from pykbroker.coordinator.partition_log import PartitionLog
from pykbroker.coordinator.runtime import Runtime
from pykbroker.coordinator.transactions import ProducerIdAllocator, TransactionRequests
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.names import TRANSACTION_STATE_TOPIC
from pykbroker.core.txn.machine import TransactionsMachine
from pykbroker.core.txn.settings import TRANSACTION_FEATURE, TransactionSettings
from pykbroker.world.off_loop import OffLoop
from pykbroker.world.turns import Turns
from wire.stored.transaction_log import TRANSACTION_RECORDS


class TransactionCoordinator:
    """The transaction coordinator. APIs use its `transactions` and `endings`.

    `log_of` returns the log of a partition that this broker leads, or raises ApiError.
    """

    def __init__(
        self,
        config: BrokerConfig,
        image: Callable[[], MetadataImage],
        producer_ids: ProducerIdAllocator,
        groups: Runtime,
        log_of: Callable[[str, int], PartitionLog],
        wall_ms: Callable[[], int],
        off_loop: OffLoop,
        turns: Turns,
        leaders: ClusterLeaders,
    ) -> None:
        settings = TransactionSettings.of(config, lambda: image().features.level(TRANSACTION_FEATURE))
        self._runtime = Runtime(
            TRANSACTION_STATE_TOPIC,
            lambda: TransactionsMachine(settings, producer_ids),
            Batches(TRANSACTION_RECORDS),
            wall_ms,
            off_loop,
            turns,
            config.request_timeout_ms / 1000,
        )
        self.transactions = TransactionRequests(
            self._runtime, producer_ids, config.add_partitions_to_txn_retry_backoff_max_ms, leaders
        )
        self.endings = Endings(log_of, groups, wall_ms)
        self._writer = MarkerWriter(
            self._runtime,
            self.endings,
            lambda topic, index: image().topics.partition(topic, index) is not None,
            leaders,
        )

    def follow(self, partitions: int, led: Mapping[int, PartitionLog]) -> None:
        """Set the partitions of `__transaction_state` that this broker leads.

        The topic has `partitions` partitions in total.
        """
        self._runtime.follow(partitions, led)
        self._writer.follow(led)

    async def run(self) -> None:
        """Run the coordinator until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._runtime.run)
            nursery.start_soon(self._writer.run)
