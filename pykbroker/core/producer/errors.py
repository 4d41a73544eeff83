"""The errors of the producer's pure half, which its faces raise as they are."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode


class RecordTooLarge(ValueError):
    """The error of a record that can never be sent with the producer's settings. `row` is its place in columns."""

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class ProducerClosed(RuntimeError):
    """The error of a call on a producer that is closed or is being closed."""


class UnknownPartition(ValueError):
    """The error of a record for a partition that its topic lacks."""


class DeliveryExpired(ApiError):
    """The error of a record that no broker acknowledged within `delivery.timeout.ms`. It may be written."""


class BufferExhausted(TimeoutError):
    """The error of a record for which no memory became free within `max.block.ms`."""


class MetadataTimeout(TimeoutError):
    """The error of a record whose topic or partition was still unknown after `max.block.ms`."""


class TransactionTimeout(TimeoutError):
    """The error of a call whose result is still unknown after `max.block.ms`. The same call may be repeated."""


class AppendCancelled(RuntimeError):
    """The error of rows that were not appended, because their call was cancelled or interrupted."""


class IllegalCall(RuntimeError):
    """The error of a call that is not possible in the current state of the producer's transaction. Nothing changes."""


class TransactionAborted(RuntimeError):
    """The error of a record that was not sent before its transaction was aborted."""


class ErrorCategory(Enum):
    """The recovery of an application from the error of a transaction (KIP-1050). The value is a short advice."""

    ABORTABLE = "call abort_transaction, then begin another transaction"
    APPLICATION_RECOVERABLE = "close the producer, and open another one"
    INVALID_CONFIGURATION = "close the producer, and correct its settings or its permissions"


class TransactionError(ApiError):
    """The failure of a transaction. The error of the broker or of a record, if there is one, is `__cause__`."""

    def __init__(
        self, code: ErrorCode, message: str, category: ErrorCategory = ErrorCategory.APPLICATION_RECOVERABLE
    ) -> None:
        super().__init__(code, message)
        self.category = category

    @property
    def is_fatal(self) -> bool:
        """Whether the producer can do nothing any more. After any other error, the transaction can be aborted."""
        return self.category is not ErrorCategory.ABORTABLE

    def __str__(self) -> str:
        return f"{self.message}: {self.category.value}"


class ProducerFenced(TransactionError):
    """The error PRODUCER_FENCED: another producer has the same transactional id and a newer epoch."""


class InvalidProducerEpoch(TransactionError):
    """The error INVALID_PRODUCER_EPOCH: a batch had an old epoch. An abort shows whether the producer is fenced."""


class OutOfOrderSequence(TransactionError):
    """The error OUT_OF_ORDER_SEQUENCE_NUMBER: the log lacks an earlier batch of the producer."""


class UnknownProducerId(TransactionError):
    """The error UNKNOWN_PRODUCER_ID: the log has no records of the producer any more."""


class TransactionAbortable(TransactionError):
    """The error TRANSACTION_ABORTABLE: a request of the transaction has failed, and no retry is left."""


CLASSES: Mapping[ErrorCode, type[TransactionError]] = {
    ErrorCode.PRODUCER_FENCED: ProducerFenced,
    ErrorCode.INVALID_PRODUCER_EPOCH: InvalidProducerEpoch,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: OutOfOrderSequence,
    ErrorCode.UNKNOWN_PRODUCER_ID: UnknownProducerId,
    ErrorCode.TRANSACTION_ABORTABLE: TransactionAbortable,
}
"""The classes of errors that an application may want to catch by name."""
NOT_ABORTED = (TransactionError, TransactionTimeout, IllegalCall)
"""The errors of an abort after which the error that caused it is of more interest."""
INVALID_CONFIGURATION = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)


def hint(code: ErrorCode) -> str:
    """Return what an error of a transaction may mean, if its code does not say it."""
    if code is not ErrorCode.INVALID_TXN_STATE:
        return ""
    return "; the coordinator has no open transaction of this producer: it aborts one after transaction_timeout_ms"


def abortable_error(code: ErrorCode, message: str, cause: Exception | None = None) -> TransactionError:
    """Return the error of a transaction that can only be aborted."""
    error = CLASSES.get(code, TransactionError)(code, message, ErrorCategory.ABORTABLE)
    error.__cause__ = cause
    return error


def fatal_error(code: ErrorCode, message: str, cause: Exception | None = None) -> TransactionError:
    """Return the error of a producer that can do nothing any more."""
    category = ErrorCategory.APPLICATION_RECOVERABLE
    if code in INVALID_CONFIGURATION:
        category = ErrorCategory.INVALID_CONFIGURATION
    kind = TransactionError if code is ErrorCode.TRANSACTION_ABORTABLE else CLASSES.get(code, TransactionError)
    error = kind(code, message, category)
    error.__cause__ = cause
    return error
