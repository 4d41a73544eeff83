"""The transaction manager: the calls of the application, and the state that the owner of the producer asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pykbroker.core.errors import ApiError
from pykbroker.core.producer.errors import TransactionAborted, fatal_error
from pykbroker.core.producer.sequences import ProducerIdentity
from pykbroker.core.producer.transactions.calls import (
    VERSION_1_MAX,
    AddOffsetsCall,
    EndTxnCall,
    GroupMember,
    OffsetToCommit,
    TxnOffsetCommitCall,
)
from pykbroker.core.producer.transactions.requests import CoordinatorRequests
from pykbroker.core.producer.transactions.result import CallResult
from pykbroker.core.producer.transactions.sequences import TransactionalSequences
from pykbroker.core.producer.transactions.state import COMPLETING, ManagerState, TransactionCall
from pykbroker.core.producer.transactions.status import TransactionStatus
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode

TRANSACTION_VERSION = "transaction.version"
"""The finalized feature that enables version 2 of the protocol."""
PRODUCE_VERSION_1_MAX = 11
"""The newest version of Produce with which the leader does not add its partition to the transaction (KIP-890)."""
BUMP_VERSION_MIN = 3
"""The first version of InitProducerId that bumps the epoch (KIP-360)."""


class BatchAbort(NamedTuple):
    """An order to the sender: fail all batches, or only those that were never sent, with this error."""

    error: Exception
    unsent_only: bool


class TransactionManager:
    """The transactions of a producer with a transactional id.

    `sequences` is the sequencer of the sender, and `requests` has the requests to send. All methods are called under
    the lock of the owner.
    """

    def __init__(self, transactional_id: str, timeout_ms: int, retry_backoff_ms: float = 100) -> None:
        self.transactional_id = transactional_id
        self._status = TransactionStatus(transactional_id)
        self.sequences = TransactionalSequences(self._status)
        self.requests = CoordinatorRequests(self._status, self.sequences, timeout_ms, retry_backoff_ms)

    # ---- questions of the owner

    @property
    def state(self) -> ManagerState:
        return self._status.state

    @property
    def is_open(self) -> bool:
        """Whether records may be appended now."""
        return self._status.state is ManagerState.IN_TRANSACTION

    @property
    def is_completing(self) -> bool:
        """Whether a transaction is being committed or aborted. Its batches are then sent without a linger time."""
        return self._status.state in COMPLETING

    @property
    def unanswered_end(self) -> CallResult | None:
        """Return the result of a commit or an abort that the application has not got, or None."""
        pending = self._status.pending
        is_end = pending is not None and pending.call in (TransactionCall.COMMIT, TransactionCall.ABORT)
        return pending if is_end and pending is not None and not pending.is_acknowledged else None

    @property
    def has_transaction(self) -> bool:
        """Whether a transaction is open, is being completed or must be aborted. A close then aborts it first."""
        return self.is_open or self.is_completing or self._status.state is ManagerState.ABORTABLE_ERROR

    @property
    def produce_version_max(self) -> int | None:
        """Return the newest version of Produce that may be sent, or None if there is no limit."""
        return None if self._status.is_version_2 else PRODUCE_VERSION_1_MAX

    @property
    def batch_abort(self) -> BatchAbort | None:
        """Return which batches must fail now. The sender does this each time before it drains batches."""
        state, error = self._status.state, self._status.error
        if state is ManagerState.ABORTING_TRANSACTION:
            error_of_abort = TransactionAborted("the transaction was aborted before the record was sent")
            return BatchAbort(error_of_abort, unsent_only=True)
        return None if error is None else BatchAbort(error, unsent_only=state is ManagerState.ABORTABLE_ERROR)

    def update_features(self, epoch: int, levels: Mapping[str, int]) -> None:
        """Note the finalized features of the cluster. They count from the next transaction on."""
        if epoch > self._status.features_epoch:
            self._status.features_epoch, self._status.level = epoch, levels.get(TRANSACTION_VERSION, 0)

    def coordinator_ready(self, init_producer_id_max: int) -> None:
        """Note the newest version of InitProducerId that the transaction coordinator supports."""
        self._status.can_bump_epoch = init_producer_id_max >= BUMP_VERSION_MIN

    # ---- calls of the application

    def init(self) -> CallResult:
        """Request the producer id. This aborts an open transaction of an earlier producer, and fences that producer."""
        result, is_new = self._result(TransactionCall.INIT)
        if is_new:
            self._status.move(ManagerState.INITIALIZING)
            self.requests.request_identity(result, ProducerIdentity())
        return result

    def begin(self) -> None:
        """Begin a transaction. Raise IllegalCall or the error of the producer if this is not possible."""
        self._check(TransactionCall.BEGIN)
        self._status.move(ManagerState.IN_TRANSACTION)

    def check_send(self) -> None:
        """Raise IllegalCall or the error of the transaction if no record may be appended now."""
        self._check(TransactionCall.SEND)

    def add_partition(self, partition: TopicPartition) -> None:
        """Add the partition of a new batch to the transaction. Call this after its first record was appended.

        Raise the errors of `check_send`.
        """
        self.check_send()
        if self._status.is_version_2:
            # The leader adds its partition to the transaction with the first batch, without a request of the client
            # (KIP-890).
            self.sequences.added.add(partition)
            self._status.is_started = True
        elif partition not in self.sequences.added:
            self.requests.new_partitions.add(partition)

    def send_failed(self, error: Exception) -> None:
        """Note that a record of the open transaction was not appended. The transaction can then only be aborted."""
        if self.is_open:
            code = error.code if isinstance(error, ApiError) else ErrorCode.TRANSACTION_ABORTABLE
            self._status.fail_records(code, error, has_sequence=False)

    def send_offsets(self, offsets: Mapping[TopicPartition, OffsetToCommit], member: GroupMember) -> CallResult:
        """Commit the offsets of a group with the transaction (KIP-447). Raise TypeError for other values."""
        self._check(TransactionCall.SEND_OFFSETS)
        for partition, each in offsets.items():
            if not hasattr(each, "offset"):
                raise TypeError(f"{partition}: {each!r} is no CommittedOffset")
        result = CallResult(TransactionCall.SEND_OFFSETS)
        if not offsets:
            result.complete()
            return result
        identity = self.sequences.identity
        commit = TxnOffsetCommitCall(result, self.transactional_id, identity, member, offsets)
        if self._status.is_version_2:
            self._status.is_started = True
            # TxnOffsetCommit adds the group to the transaction by itself (KIP-890).
            self.requests.add(commit)
        else:
            commit.version_max = VERSION_1_MAX
            self.requests.add(AddOffsetsCall(self.transactional_id, identity, commit))
        return result

    def commit(self) -> CallResult:
        """Commit the transaction, after all its records were written."""
        result, is_new = self._result(TransactionCall.COMMIT)
        if is_new:
            self._status.move(ManagerState.COMMITTING_TRANSACTION)
            self._end(result, commit=True)
        return result

    def abort(self) -> CallResult:
        """Abort the transaction. Records that were never sent fail with TransactionAborted."""
        result, is_new = self._result(TransactionCall.ABORT)
        if is_new:
            self._status.move(ManagerState.ABORTING_TRANSACTION)
            self.requests.new_partitions.clear()
            self._end(result, commit=False)
        return result

    def close(self, error: Exception) -> None:
        """Fail all calls, and send nothing any more."""
        self._status.fatal(fatal_error(ErrorCode.UNKNOWN_SERVER_ERROR, str(error), error))

    def _end(self, result: CallResult, *, commit: bool) -> None:
        call = EndTxnCall(self.transactional_id, result, self.sequences.identity, commit=commit)
        if not self._status.is_version_2:
            call.version_max = VERSION_1_MAX
        self.requests.add(call)

    def _check(self, call: TransactionCall) -> None:
        self._status.repeated(call)
        self._status.check(call)

    def _result(self, call: TransactionCall) -> tuple[CallResult, bool]:
        """Return the result of a call that waits for requests, and whether the call is no repetition."""
        pending = self._status.repeated(call)
        if pending is not None:
            return pending, False
        self._status.check(call)
        self._status.pending = CallResult(call)
        return self._status.pending, True
