"""Failures by who must act: `ApiError` the peer, `StartError` and `StopError` the operator, others the developer."""

from __future__ import annotations

from wire.error_codes import ErrorCode


class ApiError(Exception):
    """A request, or one part of it, that fails with a code of the protocol; the message is for the client's user."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message or self.code.name


def bad_request(message: str) -> ApiError:
    """INVALID_REQUEST: what does not make sense, whatever there is."""
    return ApiError(ErrorCode.INVALID_REQUEST, message)


class KeysRequired(ApiError):
    """INVALID_RECORD: records of a compacted topic need keys. `indexes`: those without, or the first of `count`."""

    def __init__(self, indexes: list[int], count: int) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, f"{count} records have no key")
        self.indexes, self.count = indexes, count


class StartError(Exception):
    """The broker cannot start as it was told to; the text says why and what to do. No traceback is shown."""


class StopError(Exception):
    """The broker ends, or did not end in order, because of its machine. The text says what happened and what to do.

    It is one line of the log, without a traceback, and exit code 1.
    """
