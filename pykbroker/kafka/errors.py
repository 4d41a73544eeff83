"""The errors of kafka-python, under its names. They subclass those of kafka-python where it is installed.

The class of a broker's error code is an attribute of this module too, such as `NotLeaderForPartitionError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pykbroker.client.errors import AuthenticationError
from pykbroker.core.consumer.errors import (
    CommitFailed,
    ConsumerClosed,
    ConsumerTimeout,
    LogTruncation,
    NoOffsetForPartition,
    OffsetsOutOfRange,
    SubscriptionConflict,
    UnreadableRecords,
)
from pykbroker.core.errors import ApiError
from pykbroker.core.producer.errors import (
    BufferExhausted,
    DeliveryExpired,
    IllegalCall,
    MetadataTimeout,
    ProducerClosed,
    RecordTooLarge,
    TransactionAborted,
    TransactionError,
    TransactionTimeout,
    UnknownPartition,
)
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.kafka.kafka_python import module_of
from pykbroker.kafka.structs import OffsetAndMetadata
from wire.error_codes import ErrorCode

THEIRS = module_of("errors")

UNLIKE_KAFKA = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownError",
    ErrorCode.CORRUPT_MESSAGE: "CorruptRecordError",
    ErrorCode.INVALID_FETCH_SIZE: "InvalidFetchRequestError",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "NotLeaderForPartitionError",
    ErrorCode.MESSAGE_TOO_LARGE: "MessageSizeTooLargeError",
    ErrorCode.NETWORK_EXCEPTION: "NetworkExceptionError",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "InvalidTopicError",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "InvalidReplicationAssignmentError",
    ErrorCode.INVALID_CONFIG: "InvalidConfigurationError",
}
"""The names of kafka-python that differ from Kafka's name of the error code."""


def theirs(name: str) -> tuple[type[Exception], ...]:
    """Return the class of kafka-python as a further base class, if it exists."""
    found = getattr(THEIRS, name, None)
    return () if found is None else (found,)


class KafkaError(*(theirs("KafkaError") or (Exception,))):  # type: ignore[misc]
    """The base class of all errors."""

    retriable = False
    invalid_metadata = False

    def __str__(self) -> str:
        return f"{type(self).__name__}: {Exception.__str__(self)}" if self.args else type(self).__name__


class RetriableError(KafkaError, *theirs("RetriableError")):  # type: ignore[misc]
    """The base class of errors after which the same call may succeed."""

    retriable = True


class InvalidMetadataError(RetriableError, *theirs("InvalidMetadataError")):  # type: ignore[misc]
    """The base class of errors after which the metadata is refreshed."""

    invalid_metadata = True


class BrokerResponseError(KafkaError, *theirs("BrokerResponseError")):  # type: ignore[misc]
    """The base class of errors that a broker has answered. `errno` is Kafka's error code."""

    errno: int | None = None

    def __str__(self) -> str:
        return f"[Error {self.errno}] {super().__str__()}"


class IllegalStateError(KafkaError, *theirs("IllegalStateError")):  # type: ignore[misc]
    """The error of a call that the state of the client does not allow, for example after `close`."""


class IllegalArgumentError(KafkaError, *theirs("IllegalArgumentError")):  # type: ignore[misc]
    """The error of an argument that is not allowed."""


class KafkaConfigurationError(KafkaError, *theirs("KafkaConfigurationError"), ValueError, TypeError):  # type: ignore[misc]
    """The error of an argument of a client that is not allowed.

    kafka-python raises this error, ValueError or TypeError, depending on the argument and the client.
    """


class TransactionAbortedError(KafkaError, *theirs("TransactionAbortedError")):  # type: ignore[misc]
    """The error of a record that was not sent before its transaction was aborted."""


class NoOffsetForPartitionError(KafkaError, *theirs("NoOffsetForPartitionError")):  # type: ignore[misc]
    """The error of partitions without a committed offset, if `auto_offset_reset` names no offset."""


class LogTruncationError(KafkaError, *theirs("LogTruncationError")):  # type: ignore[misc]
    """The error of positions whose records were truncated.

    `divergent_offsets` has the first offset at which the log of each partition differs, or None if it is unknown.
    """

    def __init__(self, divergent_offsets: Mapping[TopicPartition, OffsetAndMetadata | None], text: str) -> None:
        Exception.__init__(self, text)
        self.divergent_offsets = dict(divergent_offsets)


class CommitFailedError(KafkaError, *theirs("CommitFailedError")):  # type: ignore[misc]
    """The error of a commit by a member that the group has removed."""

    def __init__(self, text: str) -> None:
        Exception.__init__(self, text)


class KafkaTimeoutError(RetriableError, *theirs("KafkaTimeoutError")):  # type: ignore[misc]
    """The error of a call or a record whose time is over."""


def name_of(code: ErrorCode) -> str:
    """Return the name that kafka-python has for an error code."""
    if code in UNLIKE_KAFKA:
        return UNLIKE_KAFKA[code]
    name = "".join(part.capitalize() for part in code.name.split("_"))
    return name if name.endswith("Error") else f"{name}Error"


def _class_of(code: ErrorCode) -> type[BrokerResponseError]:
    bases: list[Any] = [BrokerResponseError]
    if code.invalid_metadata:
        bases = [BrokerResponseError, InvalidMetadataError]
    elif code.retriable:
        bases = [BrokerResponseError, RetriableError]
    doc = f"The broker answered {code.name}."
    return type(name_of(code), (*bases, *theirs(name_of(code))), {"errno": int(code), "__doc__": doc})


BY_CODE = {code: _class_of(code) for code in ErrorCode if code}
BY_NAME = {found.__name__: found for found in BY_CODE.values()}


FencedEpochError: type[BrokerResponseError] = type(
    "FencedEpochError", (BY_NAME["ProducerFencedError"], BY_NAME["InvalidProducerEpochError"]), {}
)
"""The error of a producer whose epoch is old, for which Kafka's own client raises InvalidProducerEpochException.

kafka-python raises ProducerFencedError, because its producer asks the coordinator before it fails the transaction.
"""


NEVER_RAISED = {
    name: type(name, (KafkaError, *theirs(name)), {"__doc__": "An error of kafka-python that is never raised here."})
    for name in (
        "AuthorizationError",
        "Cancelled",
        "CorrelationIdError",
        "IncompatibleBrokerVersion",
        "InvalidReceiveError",
        "KafkaConnectionError",
        "KafkaProtocolError",
        "MetadataEmptyBrokerList",
        "NodeNotReadyError",
        "QuotaViolationError",
        "StaleMetadata",
        "TooManyInFlightRequests",
        "UnknownBrokerIdError",
        "UnrecognizedBrokerVersion",
        "UnsupportedCodecError",
    )
}
"""The errors of parts of kafka-python that this client does not have, for `except` clauses that name them."""
_ALIASES = {"CorruptRecordException": "CorruptRecordError"}


def __getattr__(name: str) -> type[KafkaError]:
    name = _ALIASES.get(name, name)
    if name in NEVER_RAISED:
        return NEVER_RAISED[name]
    if name in BY_NAME:
        return BY_NAME[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def for_code(code: int) -> type[BrokerResponseError]:
    """Return the class of an error code. A code that is unknown here has the class UnknownError."""
    found = next((each for each in BY_CODE if each == code), ErrorCode.UNKNOWN_SERVER_ERROR)
    return BY_CODE[found]


NOT_A_MEMBER = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})
"""The errors of offsets in a transaction whose consumer has left its group. Kafka's own client fails the commit too."""
_OF_CONSUMER: dict[type[Exception], type[KafkaError]] = {
    CommitFailed: CommitFailedError,
    NoOffsetForPartition: NoOffsetForPartitionError,
    OffsetsOutOfRange: BY_CODE[ErrorCode.OFFSET_OUT_OF_RANGE],
    UnreadableRecords: BY_CODE[ErrorCode.CORRUPT_MESSAGE],
}


def divergent_offsets(error: LogTruncation) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """Return the first offset at which each log differs, None where it is unknown."""
    found = {partition: error.divergent.get(partition) for partition in error.offsets}
    return {
        partition: None if each is None else OffsetAndMetadata(each.offset, each.metadata, each.epoch)
        for partition, each in found.items()
    }


def as_kafka(error: BaseException) -> BaseException:
    """Return the error of kafka-python that stands for one of our own. Other errors are returned as they are."""
    text = str(error)
    if isinstance(error, BufferExhausted | MetadataTimeout | DeliveryExpired | TransactionTimeout | ConsumerTimeout):
        return KafkaTimeoutError(text)
    if isinstance(error, TransactionAborted):
        return TransactionAbortedError(text)
    if isinstance(error, LogTruncation):
        return LogTruncationError(divergent_offsets(error), text)
    if isinstance(error, TransactionError) and error.code in NOT_A_MEMBER:
        return CommitFailedError(text)
    if isinstance(error, ApiError) and error.code == ErrorCode.INVALID_PRODUCER_EPOCH:
        return FencedEpochError(text)
    if isinstance(error, ApiError):
        return for_code(error.code)(text)
    if isinstance(error, AuthenticationError):
        return for_code(error.code or ErrorCode.SASL_AUTHENTICATION_FAILED)(text)
    if isinstance(error, RecordTooLarge):
        return BY_CODE[ErrorCode.MESSAGE_TOO_LARGE](text)
    if isinstance(error, ProducerClosed | IllegalCall | ConsumerClosed | SubscriptionConflict):
        return IllegalStateError(text)
    for kind, found in _OF_CONSUMER.items():
        if isinstance(error, kind):
            return found(text)
    return ValueError(text) if isinstance(error, UnknownPartition) else error


@contextmanager
def kafka_errors() -> Iterator[None]:
    """Raise errors of this package as those of kafka-python."""
    try:
        yield
    except Exception as error:
        found = as_kafka(error)
        if found is error:
            raise
        raise found from error
