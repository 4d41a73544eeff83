"""The sentences for transactions that fail."""

from __future__ import annotations

import pytest

from pykbroker.core.producer.errors import (
    DeliveryExpired,
    InvalidProducerEpoch,
    MetadataTimeout,
    ProducerFenced,
    TransactionTimeout,
)
from pykbroker.pipeline.writing.position import PositionPlace
from pykbroker.pipeline.writing.writer import WriteTarget, why_not_written
from wire.error_codes import ErrorCode

TARGET = WriteTarget("orders-0", "job-orders-0", "copy", 0, PositionPlace("job", "copy", 0))
EXPIRED = DeliveryExpired(ErrorCode.REQUEST_TIMED_OUT, "120 s")


@pytest.mark.parametrize(
    ("error", "of_record", "sentence"),
    [
        (TransactionTimeout("no result"), None, "the brokers of copy have not answered for too long: start the job"),
        (TransactionTimeout("no result"), EXPIRED, "it continues behind its last transaction"),
        (ValueError("aborted"), EXPIRED, "the brokers of copy have not answered for too long"),
        (
            MetadataTimeout("unknown topic"),
            None,
            "copy cannot be written: unknown topic; if the brokers were away, start the job again",
        ),
        (ValueError("aborted"), ValueError("too large"), "copy cannot be written: too large"),
        (ProducerFenced(ErrorCode.PRODUCER_FENCED, "x"), None, "another task has taken over"),
        (
            InvalidProducerEpoch(ErrorCode.INVALID_PRODUCER_EPOCH, "x"),
            None,
            "because the brokers were away: start the job again, which continues",
        ),
    ],
)
def test_a_failed_transaction_says_what_to_do(error: Exception, of_record: Exception | None, sentence: str) -> None:
    found = why_not_written(TARGET, error, of_record)
    assert found.startswith("orders-0: ")
    assert sentence in found
