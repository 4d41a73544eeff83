"""Tests of the error codes of TxnOffsetCommit, which depend on what a version of the client understands."""

from __future__ import annotations

import pytest

from pykbroker.apis.transactions.txn_offset_commit import client_error
from wire.error_codes import ErrorCode


@pytest.mark.parametrize(
    ("code", "version", "expected"),
    [
        (ErrorCode.NETWORK_EXCEPTION, 5, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.PRODUCER_FENCED, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.NOT_COORDINATOR, 5, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_a_client_gets_an_error_that_its_version_understands(code, version, expected):
    assert client_error(code, version) is expected
