"""First batches of a transaction in their partitions, until its coordinator has said whether they may be written."""

from __future__ import annotations

from pykbroker.coordinator.transactions import TransactionRequests
from pykbroker.core.log.producers import Producers
from pykbroker.core.log.verification import Verification
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode


class Admission:
    """The verifications of one request of one producer: `shown` for its batches' logs, or `refused` with the reason.

    `adds`: verification adds a partition to the transaction (transaction version 2); otherwise it must have been added.
    """

    def __init__(self, producer_id: int, epoch: int, *, adds: bool, now_ms: int) -> None:
        self._producer_id, self._epoch, self._adds, self._now_ms = producer_id, epoch, adds, now_ms
        self._first: dict[TopicPartition, tuple[Producers, int]] = {}
        self.shown: dict[TopicPartition, Verification] = {}
        self.refused: dict[TopicPartition, ErrorCode] = {}

    def begin(self, place: TopicPartition, log: Producers, sequence: int) -> None:
        """Note that a batch will be appended to this log. An open transaction in the log needs no verification."""
        shown = log.begin_verification(self._producer_id, self._epoch, sequence, self._now_ms, from_zero=self._adds)
        if shown is not None:
            self._first[place], self.shown[place] = (log, sequence), shown

    async def ask(self, transactions: TransactionRequests, transactional_id: str) -> None:
        """Ask the coordinator. While the last transaction ends, a producer of version 2 waits a little.

        The markers of that void what was shown before them, so all is begun anew in the very step that asks. What is
        refused for good is forgotten by its log, so that nobody fills memory with transactions that do not exist.
        """
        for may_wait in (self._adds, False):
            for place, (log, sequence) in self._first.items():
                self.begin(place, log, sequence)
            places = frozenset(self.shown)
            self.refused = await transactions.admit(
                transactional_id, self._producer_id, self._epoch, places, add=self._adds
            )
            if not may_wait or ErrorCode.CONCURRENT_TRANSACTIONS not in self.refused.values():
                break
            await transactions.wait_ended(transactional_id)
        for place, code in self.refused.items():
            log, _ = self._first[place]
            if not code.retriable and log.verifications.get(self._producer_id) is self.shown[place]:
                log.verifications.end(self._producer_id)
