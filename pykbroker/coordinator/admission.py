"""Verification of transactional batches (KIP-890): the coordinator says which partitions a transaction contains."""

from __future__ import annotations

from pykbroker.coordinator.transactions import TransactionRequests
from pykbroker.core.log.producers import Producers
from pykbroker.core.log.verification import Verification
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode


class Admission:
    """The verifications of one Produce or TxnOffsetCommit request. `refused` has the errors of partitions that failed.

    With `adds` (transaction version 2), the verification adds the partition to the transaction. Without it, the
    producer must have added the partition before.
    """

    def __init__(self, producer_id: int, epoch: int, *, adds: bool, now_ms: int) -> None:
        self._producer_id, self._epoch, self._adds, self._now_ms = producer_id, epoch, adds, now_ms
        self._first: dict[TopicPartition, tuple[Producers, int]] = {}
        self.verifications: dict[TopicPartition, Verification] = {}
        self.refused: dict[TopicPartition, ErrorCode] = {}

    def begin(self, place: TopicPartition, log: Producers, sequence: int) -> None:
        """Prepare the verification of a batch for this log. Do nothing if the log already has the transaction open."""
        verification = log.begin_verification(
            self._producer_id, self._epoch, sequence, self._now_ms, from_zero=self._adds
        )
        if verification is not None:
            self._first[place], self.verifications[place] = (log, sequence), verification

    async def ask(self, transactions: TransactionRequests, transactional_id: str) -> None:
        """Ask the transaction coordinator about all partitions.

        A producer of transaction version 2 waits a little while its last transaction is still ending, then asks once
        more. A marker may have removed verifications meanwhile, so all are begun again just before each request. A log
        drops the verification of a partition that is refused with a fatal error, so that unknown transactions fill no
        memory.
        """
        for may_wait in (self._adds, False):
            for place, (log, sequence) in self._first.items():
                self.begin(place, log, sequence)
            places = frozenset(self.verifications)
            self.refused = await transactions.admit(
                transactional_id, self._producer_id, self._epoch, places, add=self._adds
            )
            if not may_wait or ErrorCode.CONCURRENT_TRANSACTIONS not in self.refused.values():
                break
            await transactions.wait_ended(transactional_id)
        for place, code in self.refused.items():
            log, _ = self._first[place]
            if not code.retriable and log.verifications.get(self._producer_id) is self.verifications[place]:
                log.verifications.end(self._producer_id, self._epoch)
