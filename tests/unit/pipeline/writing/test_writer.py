"""The sentences for transactions that fail, and the records that they name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from pykbroker.core.errors import ApiError
from pykbroker.core.producer.errors import (
    DeliveryExpired,
    InvalidProducerEpoch,
    MetadataTimeout,
    ProducerFenced,
    RecordTooLarge,
    TransactionTimeout,
)
from pykbroker.core.producer.sender import OTHER_RECORD
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.writing.position import PositionPlace
from pykbroker.pipeline.writing.writer import (
    RefusedRecord,
    TransactionalWriter,
    WriteTarget,
    refused_record,
    why_not_written,
)
from pykbroker.producer.delivery import ColumnsDelivery, ColumnsResult, RowsFailed
from wire.error_codes import ErrorCode

TARGET = WriteTarget("orders-0", "job-orders-0", "copy", 0, PositionPlace("job", "copy", 0))
EXPIRED: Exception = DeliveryExpired(ErrorCode.REQUEST_TIMED_OUT, "120 s")


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
        (
            ValueError("aborted"),
            ValueError("too large"),
            "the record at offset 60 cannot be written to copy: too large",
        ),
        (ProducerFenced(ErrorCode.PRODUCER_FENCED, "x"), None, "another task has taken over"),
        (
            InvalidProducerEpoch(ErrorCode.INVALID_PRODUCER_EPOCH, "x"),
            None,
            "because the brokers were away: start the job again, which continues",
        ),
    ],
)
def test_a_failed_transaction_says_what_to_do(error: Exception, of_record: Exception | None, sentence: str) -> None:
    found = why_not_written(TARGET, error, RefusedRecord(60, of_record) if of_record else None)
    assert found.startswith("orders-0: ")
    assert sentence in found


class Failed(ColumnsDelivery):
    """A delivery of rows of which some have failed."""

    def __init__(self, errors: Mapping[int, Exception]) -> None:
        super().__init__("copy", 9)
        self.errors = errors

    def result(self) -> ColumnsResult:
        written = ColumnsResult("copy", [0] * 9, [0] * 9)
        if self.errors:
            raise RowsFailed(self.errors, written)
        return written


def test_the_record_that_was_refused_has_its_source_offset() -> None:
    """The other records of its batch fail with it."""
    invalid: Exception = ValueError("no key")
    other: Exception = ApiError(ErrorCode.INVALID_RECORD, OTHER_RECORD)
    offsets = pa.array(range(0, 900, 100))
    failed: list[tuple[dict[int, Exception], Any]] = [
        ({}, offsets),
        ({3: other, 4: invalid, 5: other}, pa.array(range(1000, 1900, 100))),
        ({0: other}, offsets),
    ]
    assert refused_record([(Failed(errors), places) for errors, places in failed]) == (1400, invalid)
    assert refused_record([(Failed({7: EXPIRED}), offsets)]) == (700, EXPIRED)
    assert refused_record([(Failed({}), offsets)]) is None


def test_a_record_that_the_producer_cannot_take_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = TransactionalWriter({"bootstrap.servers": "127.0.0.1:1", "max.request.size": "1000"}, TARGET)
    table: Any = pa.table({"value": [b"1", b"x" * 2000, b"3"]})
    monkeypatch.setattr(writer._producer, "begin_transaction", lambda: None)
    try:
        with pytest.raises(
            PipelineError, match=r"orders-0: the record at offset 8 cannot be written to copy: .*2\d\d\d b"
        ):
            writer.write(table, pa.array([7, 8, 9]))
    finally:
        writer.is_open = False
        writer.close()
    assert RecordTooLarge("one").row is None
