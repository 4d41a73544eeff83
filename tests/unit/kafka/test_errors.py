"""The errors of the drop-in: kafka-python's names and classes, for Kafka's codes and for our own errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import kafka
import kafka.errors as theirs
import pytest

from pykbroker.core.consumer.errors import LogTruncation
from pykbroker.core.consumer.position import CommittedOffset
from pykbroker.core.errors import ApiError
from pykbroker.core.producer.errors import (
    BufferExhausted,
    DeliveryExpired,
    IllegalCall,
    InvalidProducerEpoch,
    MetadataTimeout,
    ProducerClosed,
    ProducerFenced,
    RecordTooLarge,
    TransactionAborted,
    TransactionError,
    TransactionTimeout,
    UnknownPartition,
)
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.kafka import errors
from wire.error_codes import ErrorCode


@pytest.mark.parametrize("code", [code for code in ErrorCode if code and int(code) in theirs.kafka_errors])
def test_the_class_of_a_code_is_a_subclass_of_kafka_pythons(code: ErrorCode) -> None:
    ours, other = errors.for_code(code), theirs.kafka_errors[int(code)]
    assert issubclass(ours, other)
    assert issubclass(ours, errors.BrokerResponseError)
    assert ours.__name__ == other.__name__
    assert getattr(errors, ours.__name__) is ours
    assert (ours.errno, ours.retriable) == (int(code), code.retriable)


def test_a_code_that_kafka_python_lacks_has_a_class() -> None:
    assert errors.for_code(ErrorCode.REBOOTSTRAP_REQUIRED).errno == 129
    assert errors.for_code(9999).__name__ == "UnknownError"


def test_an_unknown_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'NoSuchError'"):
        _ = errors.NoSuchError


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        (BufferExhausted("b"), theirs.KafkaTimeoutError),
        (MetadataTimeout("m"), theirs.KafkaTimeoutError),
        (TransactionTimeout("t"), theirs.KafkaTimeoutError),
        (DeliveryExpired(ErrorCode.REQUEST_TIMED_OUT, "d"), theirs.KafkaTimeoutError),
        (ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, "n"), theirs.NotEnoughReplicasError),
        (ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, "e"), theirs.ProducerFencedError),
        (InvalidProducerEpoch(ErrorCode.INVALID_PRODUCER_EPOCH, "f"), theirs.ProducerFencedError),
        (InvalidProducerEpoch(ErrorCode.INVALID_PRODUCER_EPOCH, "g"), theirs.InvalidProducerEpochError),
        (ProducerFenced(ErrorCode.PRODUCER_FENCED, "h"), theirs.ProducerFencedError),
        (TransactionError(ErrorCode.ILLEGAL_GENERATION, "j"), theirs.CommitFailedError),
        (TransactionError(ErrorCode.UNKNOWN_MEMBER_ID, "k"), theirs.CommitFailedError),
        (TransactionError(ErrorCode.FENCED_INSTANCE_ID, "l"), theirs.FencedInstanceIdError),
        (RecordTooLarge("r"), theirs.MessageSizeTooLargeError),
        (ProducerClosed("c"), theirs.IllegalStateError),
        (IllegalCall("i"), theirs.IllegalStateError),
        (TransactionAborted("a"), theirs.TransactionAbortedError),
        (UnknownPartition("u"), ValueError),
        (LookupError("l"), LookupError),
    ],
)
def test_our_errors_become_those_of_kafka_python(ours: Exception, expected: type[Exception]) -> None:
    found = errors.as_kafka(ours)
    assert isinstance(found, expected)
    assert str(ours).split(":")[0] in str(found)


def test_the_text_is_that_of_kafka_python() -> None:
    assert str(errors.for_code(6)("gone")) == str(theirs.NotLeaderForPartitionError("gone"))
    assert str(errors.KafkaTimeoutError("late")) == str(theirs.KafkaTimeoutError("late"))


def test_a_truncation_has_the_offsets_at_which_the_logs_differ() -> None:
    known, unknown = TopicPartition("topic", 0), TopicPartition("topic", 1)
    found = errors.as_kafka(LogTruncation({known: 9, unknown: 8}, {known: CommittedOffset(5, 2)}))
    assert isinstance(found, theirs.LogTruncationError)
    assert found.divergent_offsets == {known: kafka.OffsetAndMetadata(5, "", 2), unknown: None}
    assert "topic-0 at offset 9" in str(found)


@pytest.mark.parametrize("base", [theirs.KafkaConfigurationError, ValueError, TypeError])
def test_a_refused_argument_is_caught_by_each_error_that_kafka_python_raises_for_one(base: type[Exception]) -> None:
    assert issubclass(errors.KafkaConfigurationError, base)


def test_another_package_named_kafka_is_not_kafka_python(tmp_path: Path) -> None:
    """A folder with files for a cluster is such a package, if kafka-python is not installed."""
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka" / "__init__.py").touch()
    program = "import kafka, pykbroker.kafka.errors as ours; print(kafka.__file__, ours.KafkaError.__mro__[1].__name__)"
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60
    )
    assert ended.stdout.split() == [str(tmp_path / "kafka" / "__init__.py"), "Exception"]
