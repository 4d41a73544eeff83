"""A sent request, and its response once it has arrived."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Generic, TypeVar, cast

from pykbroker.client.errors import Disconnected, InvalidResponse
from pykbroker.client.response_reader import ResponseFrame
from wire.api import ApiKey
from wire.apis import APIS
from wire.compile import decoder
from wire.declare import Request, Response
from wire.error_codes import ErrorCode
from wire.errors import DecodeError
from wire.header import decode_response_header

R = TypeVar("R", bound=Response)
UNSUPPORTED_VERSION = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
"""The error code at the start of an ApiVersions response that is encoded in version 0, whatever was requested."""


def do_nothing() -> None:
    """Do nothing, in place of a callback."""


class PendingResponse(Generic[R]):
    """The response to one request, or the error of its connection.

    `invalidate` closes the connection because of a response that does not decode, and returns the error.
    """

    __slots__ = (
        "_abandoned",
        "_error",
        "_frame",
        "_invalidate",
        "_response_class",
        "_version",
        "_wake",
        "correlation_id",
        "expires_at",
        "is_done",
    )

    def __init__(
        self, request: Request[R], version: int, correlation_id: int, invalidate: Callable[[str], InvalidResponse]
    ) -> None:
        self._response_class = cast("type[R]", APIS[request.key].response)
        self._version, self.correlation_id, self._invalidate = version, correlation_id, invalidate
        self._frame: ResponseFrame | None = None
        self._error: Disconnected | None = None
        self._abandoned = self.is_done = False
        self.expires_at = inf
        """The time of trio's clock at which the connection is closed if the response is still missing."""
        self._wake: Callable[[], None] = do_nothing

    def arrive(self, frame: ResponseFrame) -> None:
        """Store the response, or drop it if the request was abandoned."""
        self.is_done = True
        if not self._abandoned:
            self._frame = frame
            self._wake()

    def fail(self, error: Disconnected) -> None:
        """Store the error of the connection: no response will arrive."""
        if not self.is_done:
            self._error = error
            self.is_done = True
            self._wake()

    def call_when_done(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the response has arrived or the connection has ended.

        That is at once if the connection has ended while the request was being sent.
        """
        self._wake = callback
        if self.is_done:
            callback()

    def abandon(self) -> None:
        """Let the response be dropped when it arrives."""
        self._abandoned = True

    def result(self) -> R:
        """Return the response, once `is_done` is true.

        Raise Disconnected if the connection has ended. Close the connection and raise InvalidResponse if the response
        is malformed.
        """
        if self._frame is None:
            assert self._error is not None, "the response is still pending"
            raise self._error.with_traceback(None)
        buffer, start, end = self._frame
        cls, version = self._response_class, self._version
        try:
            _, start = decode_response_header(buffer, start, end, cls.key, version)
            if cls.key == ApiKey.API_VERSIONS and bytes(buffer[start : start + 2]) == UNSUPPORTED_VERSION:
                version = 0
            return decoder(cls, version)(buffer, start, end)
        except DecodeError as error:
            raise self._invalidate(f"the response does not decode: {error}") from error
