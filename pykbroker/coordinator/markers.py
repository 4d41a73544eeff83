"""The writer of transaction markers. It tells the coordinator when all markers of a transaction are written."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Iterable, Mapping

import trio

from pykbroker.coordinator.cluster import ClusterLeaders
from pykbroker.coordinator.endings import Endings
from pykbroker.coordinator.partition_log import PartitionLog
from pykbroker.coordinator.remote_markers import write_at
from pykbroker.coordinator.runtime import Runtime
from pykbroker.core.errors import ApiError
from pykbroker.core.log.producers import Marker
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.core.txn.requests import AwaitMarkers, Markers, MarkersWritten
from pykbroker.core.txn.state import TransactionState
from pykbroker.core.txn.transaction import Transaction
from pykbroker.world.portions import portions
from wire.error_codes import ErrorCode

logger = logging.getLogger(__name__)

RETRY_S = 0.1
"""The pause before the writer retries a failed partition, or asks a loading coordinator again."""
AT_ONCE_MAX = 100
"""The number of markers that are appended or awaited before other tasks may run."""
SORTED_AT_ONCE_MAX = 4096
"""The number of partitions that are sorted before other tasks may run, which takes 2 ms."""
ENDED_OTHERWISE = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
"""The errors of a partition where a newer epoch of the producer or of the coordinator has ended the transaction."""


class MarkerWriter:
    """The tasks that write markers: one for each led partition of `__transaction_state`, and one for each transaction.

    `exists` returns whether a partition exists. A deleted partition needs no marker. Without `leaders`, this broker
    leads all partitions.
    """

    def __init__(
        self,
        transactions: Runtime,
        endings: Endings,
        exists: Callable[[str, int], bool],
        leaders: ClusterLeaders | None = None,
    ) -> None:
        self._transactions, self._endings, self._exists, self._leaders = transactions, endings, exists, leaders
        self._led: dict[int, int] = {}
        self._scopes: dict[int, tuple[int, trio.CancelScope]] = {}
        self._changed = trio.Event()

    def follow(self, led: Mapping[int, PartitionLog]) -> None:
        """Set the partitions of `__transaction_state` that this broker leads."""
        self._led = {index: log.leader_epoch for index, log in led.items()}
        self._changed.set()

    async def run(self) -> None:
        """Write markers until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                self._changed = trio.Event()
                for index, (epoch, scope) in list(self._scopes.items()):
                    if self._led.get(index) != epoch:
                        scope.cancel()
                        del self._scopes[index]
                for index, epoch in self._led.items():
                    if index not in self._scopes:
                        scope = trio.CancelScope()
                        self._scopes[index] = epoch, scope
                        nursery.start_soon(self._serve, scope, index, epoch)
                await self._changed.wait()

    async def _serve(self, scope: trio.CancelScope, index: int, epoch: int) -> None:
        """Write the markers for one partition of `__transaction_state`, while this broker leads it in this epoch."""
        with scope:
            async with trio.open_nursery() as nursery:
                while True:
                    try:
                        markers: Markers = await self._transactions.ask_at(index, AwaitMarkers()).wait()
                    except ApiError:  # the coordinator is loading its state
                        await trio.sleep(RETRY_S)
                        continue
                    for decided in markers.transactions:
                        nursery.start_soon(self._end, decided, epoch)

    async def _end(self, decided: Transaction, coordinator_epoch: int) -> None:
        """Write the markers of one transaction and complete it. Failed partitions are retried."""
        marker = Marker(
            decided.producer_id,
            decided.epoch,
            decided.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch,
            decided.client_version,
        )
        missing = await self._write(marker, decided.partitions)
        # Nothing else ends a decided transaction. Consumers of committed records wait before it until its markers are
        # written.
        while missing:
            await trio.sleep(RETRY_S)
            missing = await self._write(marker, missing)
        while (error := await self._complete(decided)) is not None:
            if error.code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
                logger.warning(
                    "transactional id %s: %s is written but could not be marked complete: %s",
                    decided.transactional_id,
                    marker,
                    error,
                )
                return
            await trio.sleep(RETRY_S)

    async def _complete(self, decided: Transaction) -> ApiError | None:
        """Tell the coordinator that all markers of a transaction are written. Return the error if it is refused.

        A coordinator that is loaded again asks for the markers again. Only a log that refuses the record for lack of
        replicas in sync leaves the transaction as it is.
        """
        written = MarkersWritten(decided.transactional_id, decided.producer_id, decided.epoch)
        try:
            await self._transactions.ask(decided.transactional_id, written).wait()
        except ApiError as error:
            return error
        return None

    async def _write(self, marker: Marker, partitions: frozenset[TopicPartition]) -> frozenset[TopicPartition]:
        """Append the marker to all partitions, then wait until it is committed. Return the partitions to retry.

        Other brokers append it to the partitions that they lead.
        """
        appended, again, elsewhere = [], [], dict[int, list[TopicPartition]]()
        for count, place in enumerate(await in_order(partitions), 1):
            if count % AT_ONCE_MAX == 0:
                await trio.lowlevel.checkpoint()
            leader = None if self._leaders is None else self._leaders.elsewhere(place)
            if leader is not None:
                elsewhere.setdefault(leader, []).append(place)
                continue
            try:
                # All markers are appended before the first one is awaited, so that they are replicated together.
                appended.append((place, self._endings.append(*place, marker)))
            except ApiError as error:
                if self._must_retry(place, marker, error):
                    again.append(place)
        if elsewhere:
            again += await self._write_elsewhere(marker, elsewhere)
        for count, (place, ending) in enumerate(appended, 1):
            if count % AT_ONCE_MAX == 0:
                await trio.lowlevel.checkpoint()
            try:
                await ending.wait()
            except ApiError as error:
                if self._must_retry(place, marker, error):
                    again.append(place)
        return frozenset(again)

    async def _write_elsewhere(
        self, marker: Marker, elsewhere: Mapping[int, list[TopicPartition]]
    ) -> list[TopicPartition]:
        """Let other brokers write the marker to the partitions that they lead. Return the partitions to retry."""
        assert self._leaders is not None
        peers, again = self._leaders.marker_peers, list[TopicPartition]()

        async def write(node_id: int, places: list[TopicPartition]) -> None:
            failed = await write_at(peers, node_id, marker, places)
            again.extend(place for place, error in failed.items() if self._must_retry(place, marker, error))

        async with trio.open_nursery() as nursery:
            for node_id, places in elsewhere.items():
                nursery.start_soon(write, node_id, places)
        return again

    def _must_retry(self, place: TopicPartition, marker: Marker, error: ApiError) -> bool:
        if error.code in ENDED_OTHERWISE or not self._exists(*place):
            logger.info("%s-%d: no marker is written for producer id %d: %s", *place, marker.producer_id, error)
            return False
        return True


async def in_order(partitions: frozenset[TopicPartition]) -> Iterable[TopicPartition]:
    """Return the partitions in sorted order. Other tasks run while they are sorted in portions and merged lazily."""
    runs: list[list[TopicPartition]] = []
    for few in portions(partitions, SORTED_AT_ONCE_MAX):
        if runs:
            await trio.lowlevel.checkpoint()
        few.sort()
        runs.append(few)
    return heapq.merge(*runs)
