"""The sequence numbers of a transactional producer, whose epoch a coordinator bumps between two transactions."""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.producer.batch import ProducerBatch
from pykbroker.core.producer.sequences import PartitionSequences, ProducerIdentity, Sequences
from pykbroker.core.producer.transactions.state import ManagerState
from pykbroker.core.producer.transactions.status import TransactionStatus
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode, error_code
from wire.messages.produce import PartitionProduceResponse
from wire.sentinels import NO_OFFSET

OPEN = frozenset({ManagerState.IN_TRANSACTION, ManagerState.COMMITTING_TRANSACTION})
"""The states in which batches are sent that were never sent before."""


class TransactionalSequences(Sequences):
    """The sequence numbers of a transactional producer. It matches `sender.DeliverySequencer`.

    A batch that failed for good leaves a gap, which only another epoch closes. Later batches of its partition then
    fail with OUT_OF_ORDER_SEQUENCE_NUMBER. They are part of the same transaction, which is aborted anyway.
    """

    is_transactional = True

    def __init__(self, status: TransactionStatus) -> None:
        super().__init__()
        self._status = status
        self.added: set[TopicPartition] = set()
        """The partitions of the transaction, to which batches may be sent."""
        self._gaps: set[TopicPartition] = set()
        """The partitions in which a batch failed for good since the epoch was bumped."""
        self._renumbered: set[ProducerBatch] = set()
        """The batches that were numbered again in the same epoch, and may be answered under their old numbers."""

    @property
    def needs_identity(self) -> bool:
        """Return false: the application requests the producer id of a transactional producer."""
        return False

    def set_identity(self, identity: ProducerIdentity) -> None:
        """Use a producer id and epoch that the coordinator has assigned. All partitions then start at 0."""
        self.identity = identity
        for partition in self._partitions.values():
            partition.restart(identity)
        self._gaps.clear()
        self._renumbered.clear()

    def advance(self) -> None:
        """Do nothing, since the epoch is bumped at the end of a transaction."""

    def may_drain(self, batch: ProducerBatch) -> bool:
        """Whether the batch may be sent now: its partition is part of the transaction, and it keeps the order."""
        state = self._status.state
        if state is ManagerState.FATAL_ERROR or batch.partition not in self.added:
            return False
        return (state in OPEN or batch.state.base_sequence >= 0) and super().may_drain(batch)

    def may_retry(self, batch: ProducerBatch, answer: PartitionProduceResponse) -> bool:
        """Whether the batch may be sent again after this error."""
        code, partition = error_code(answer.error_code), self._of(batch.partition)
        if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            is_next = partition.follows_written(batch.state.base_sequence)
            return batch.partition not in self._gaps and (batch in self._renumbered or not is_next)
        if code is ErrorCode.UNKNOWN_PRODUCER_ID:
            return answer.log_start_offset == NO_OFFSET or self._may_restart(batch, partition, answer)
        return code.retriable

    def _may_restart(
        self, batch: ProducerBatch, partition: PartitionSequences, answer: PartitionProduceResponse
    ) -> bool:
        """Number the batches from 0 if the broker deleted all records of the producer. Return False if it did not."""
        if batch in self._renumbered:
            return True
        if partition.last_offset >= answer.log_start_offset:
            return False
        # The broker has forgotten the producer together with its records, and accepts sequence 0 in the same epoch.
        self._renumbered.update(partition.in_flight)
        partition.restart(self.identity)
        return True

    def failed(self, batch: ProducerBatch, error: ApiError, *, adjust: bool) -> None:
        """Note that the batch failed for good. The transaction can then only be aborted."""
        has_sequence = batch.state.base_sequence >= 0
        if has_sequence:
            self._gaps.add(batch.partition)
        self._status.fail_records(error.code, error, has_sequence=has_sequence)
        self._remove(self._of(batch.partition), batch)

    def left(self, batch: ProducerBatch) -> None:
        """Do nothing, since `failed` has noted the gap."""

    def _remove(self, partition: PartitionSequences, batch: ProducerBatch) -> None:
        super()._remove(partition, batch)
        self._renumbered.discard(batch)
