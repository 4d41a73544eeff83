"""The error codes that clients of a coordinator receive when its log refuses their records."""

from __future__ import annotations

from collections.abc import Mapping

from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode

CLIENT_ERRORS: Mapping[ErrorCode, ErrorCode] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Error codes of a coordinator's log, with the error codes that clients receive for them.

Clients retry after COORDINATOR_NOT_AVAILABLE, but consumers take NOT_ENOUGH_REPLICAS from a coordinator for fatal.
"""


def client_error(error: ApiError) -> ApiError:
    """Return the error of a coordinator's log as its clients receive it. Other errors are returned unchanged."""
    code = CLIENT_ERRORS.get(error.code)
    return error if code is None else ApiError(code, str(error))
