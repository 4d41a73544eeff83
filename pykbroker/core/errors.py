"""Exceptions, sorted by who must act: ApiError is for the client, StartError and StopError are for the operator.

Any other exception is a defect of the broker.
"""

from __future__ import annotations

from typing import Any, TypeVar

from wire.error_codes import ErrorCode

E = TypeVar("E", bound=BaseException)


def again(error: E) -> E:
    """Return a copy of an error that is kept, without traceback and cause.

    The copy is raised instead. A kept error that is raised itself keeps the frames through which it passed, with all
    that they hold, such as a request of 100 MiB. Frames that lead back to the error are then freed by the garbage
    collector only, which runs rarely in the broker.
    """
    reduced: Any = error.__reduce__()  # unlike `args`, it has the file name of an OSError
    copied = type(error).__new__(type(error), *reduced[1])
    copied.__dict__.update(error.__dict__)
    return copied


class ApiError(Exception):
    """The failure of a request, or of a part of it: an error code and a message for the client's user."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message or self.code.name


def default_error(code: ErrorCode) -> ApiError:
    """Return an error with Kafka's default message, for responses that have it."""
    return ApiError(code, code.message)


def bad_request(message: str) -> ApiError:
    """Return INVALID_REQUEST, for a request that is invalid in any state of the cluster."""
    return ApiError(ErrorCode.INVALID_REQUEST, message)


class KeysRequired(ApiError):
    """The error INVALID_RECORD for records without keys, which a compacted topic refuses.

    `indexes` has the positions of such records in the batch, only the first ones if there are many. `count` is the
    number of all such records.
    """

    def __init__(self, indexes: list[int], count: int) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, f"{count} records have no key")
        self.indexes, self.count = indexes, count


class StartError(Exception):
    """A failure to start the broker as configured. The text gives the cause and the remedy; no traceback is printed."""


class StopError(Exception):
    """A disk or system failure that stops the broker, or that disturbs its shutdown. The text gives cause and remedy.

    It is logged as one line without a traceback, and the exit code is 1.
    """
