"""One connection to a broker: sends requests and matches responses by correlation id."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, TypeVar

import trio

from pykbroker.core.limits import REQUEST_BYTES_MAX
from wire.api import APIS, ApiKey
from wire.declare import Request, Response
from wire.errors import DecodeError
from wire.frame import LENGTH_BYTES, decode_response, encode_request
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.versions import Versions

R = TypeVar("R", bound=Response)

CORRELATION_ID_BYTES = 4
RECEIVE_BYTES = 65_536


class Disconnected(Exception):
    """The error of a connection that is closed, or that received bytes which are no valid response."""


class UnsupportedVersion(Exception):
    """The error of an API that broker and client have no common version of."""


class BrokerConnection:
    """A connection that any number of tasks may call at once. It has no timeouts: callers set their own deadlines."""

    def __init__(self, stream: trio.abc.Stream, client_id: str) -> None:
        self.versions: dict[int, Versions] = {}
        self._stream, self._client_id = stream, client_id
        self._ids = count()
        self._sending, self._receiving = trio.Lock(), trio.Lock()
        self._buffer = bytearray()

    async def negotiate(self) -> None:
        """Ask for the broker's API versions with ApiVersions v0, which every broker answers."""
        answer = await self.call(ApiVersionsRequest(), ApiVersionsResponse, 0)
        if answer.error_code:
            raise Disconnected(f"ApiVersions was answered with error {answer.error_code}")
        self.versions = {api.api_key: Versions(api.min_version, api.max_version) for api in answer.api_keys}

    def newest_version(self, key: int) -> int:
        """Return the newest version that both sides support. UnsupportedVersion: none."""
        ours, theirs = APIS[key].accepted, self.versions.get(key)
        if theirs is None or min(ours.last, theirs.last) < max(ours.first, theirs.first):
            raise UnsupportedVersion(f"the broker has no version of {ApiKey(key).name} that this client has")
        return min(ours.last, theirs.last)

    async def call(self, request: Request[Any], answer: type[R], version: int | None = None) -> R:
        """Send a request and return the response. Disconnected: no response will come."""
        if version is None:
            version = self.newest_version(request.key)
        async with self._sending:
            correlation_id = next(self._ids) & 0x7FFFFFFF
            await self._send(encode_request(request, version, correlation_id, self._client_id))
        async with self._receiving:  # the lock is fair: callers enter in the order in which they have sent
            frame = await self._frame()
            while correlation_id_of(frame) != correlation_id:  # the answer to a caller that was cancelled
                frame = await self._frame()
        try:
            return decode_response(answer, version, frame)[1]
        except DecodeError as error:
            await self.aclose()
            raise Disconnected(f"the answer to {ApiKey(request.key).name} does not parse: {error}") from error

    async def aclose(self) -> None:
        """Close at once. Waiting callers get Disconnected."""
        await trio.aclose_forcefully(self._stream)

    async def _send(self, frame: bytes) -> None:
        try:
            await self._stream.send_all(frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise Disconnected("the broker closed the connection") from error
        except BaseException:  # cut off in the middle: what follows would not be understood
            await self.aclose()
            raise

    async def _frame(self) -> bytes:
        """Return the next response without its length."""
        await self._fill(LENGTH_BYTES)
        size = int.from_bytes(self._buffer[:LENGTH_BYTES], "big", signed=True)
        if not CORRELATION_ID_BYTES <= size <= REQUEST_BYTES_MAX:
            await self.aclose()
            raise Disconnected(f"an answer claims to have {size} bytes")
        await self._fill(LENGTH_BYTES + size)
        frame = bytes(self._buffer[LENGTH_BYTES : LENGTH_BYTES + size])
        del self._buffer[: LENGTH_BYTES + size]
        return frame

    async def _fill(self, size: int) -> None:
        """Wait until the buffer holds `size` bytes. A cancellation loses no bytes."""
        while len(self._buffer) < size:
            try:
                data = await self._stream.receive_some(RECEIVE_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise Disconnected("the connection broke") from error
            if not data:
                raise Disconnected("the broker closed the connection")
            self._buffer += data


@asynccontextmanager
async def connected(stream: trio.abc.Stream, client_id: str) -> AsyncIterator[BrokerConnection]:
    """Yield a connection that knows the broker's API versions, and close it when the block ends."""
    connection = BrokerConnection(stream, client_id)
    try:
        await connection.negotiate()
        yield connection
    finally:
        await connection.aclose()


def correlation_id_of(frame: bytes) -> int:
    """Return the correlation id, with which every response begins."""
    return int.from_bytes(frame[:CORRELATION_ID_BYTES], "big")
