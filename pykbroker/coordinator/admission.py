"""The check of a transaction's first batch in each partition: its coordinator says whether it may be written."""

from __future__ import annotations

from pykbroker.coordinator.transactions import TransactionRequests
from pykbroker.core.log.producers import Producers
from pykbroker.core.log.verification import Verification
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode


class Admission:
    """The verifications of one request, for the logs of its batches; `refused` has the errors of other partitions.

    `adds`: verification adds a partition to the transaction (transaction version 2); otherwise it must have been added.
    """

    def __init__(self, producer_id: int, epoch: int, *, adds: bool, now_ms: int) -> None:
        self._producer_id, self._epoch, self._adds, self._now_ms = producer_id, epoch, adds, now_ms
        self._first: dict[TopicPartition, tuple[Producers, int]] = {}
        self.verifications: dict[TopicPartition, Verification] = {}
        self.refused: dict[TopicPartition, ErrorCode] = {}

    def begin(self, place: TopicPartition, log: Producers, sequence: int) -> None:
        """Note that a batch will be appended to this log. An open transaction in the log needs no verification."""
        verification = log.begin_verification(
            self._producer_id, self._epoch, sequence, self._now_ms, from_zero=self._adds
        )
        if verification is not None:
            self._first[place], self.verifications[place] = (log, sequence), verification

    async def ask(self, transactions: TransactionRequests, transactional_id: str) -> None:
        """Ask the coordinator. While the last transaction ends, a producer of version 2 waits a little.

        Its markers void earlier verifications, so all are begun anew in the very step that asks. A log forgets the
        verification of a partition that is refused for good: transactions that do not exist fill no memory.
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
                log.verifications.end(self._producer_id)
