"""Tests of copies of errors."""

from __future__ import annotations

import errno

import pytest

from pykbroker.core.consumer.errors import UnreadableRecords
from pykbroker.core.errors import ApiError, KeysRequired, again
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode

ERRORS = [
    ApiError(ErrorCode.INVALID_RECORD, "why"),
    KeysRequired([1], 2),
    OSError(errno.EIO, "I/O error", "00000000000000000000.log"),
    UnreadableRecords(TopicPartition("topic", 1), 5, "damaged"),
]


@pytest.mark.parametrize("error", ERRORS, ids=[type(error).__name__ for error in ERRORS])
def test_a_kept_error_is_raised_again_as_a_copy_without_traceback(error: Exception) -> None:
    with pytest.raises(type(error)):
        raise error from KeyError("cause")
    copied = again(error)
    assert type(copied) is type(error)
    assert (str(copied), vars(copied), copied.args) == (str(error), vars(error), error.args)
    assert (copied.__traceback__, copied.__cause__, copied.__context__) == (None, None, None)
    if isinstance(copied, OSError):
        assert (copied.errno, copied.filename) == (errno.EIO, "00000000000000000000.log")
