"""The table of APIs, which has the codec, the handler and the counters of each version of each API.

ApiVersions advertises its versions, except those that Kafka does not advertise.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pykbroker.core.steps import Steps
from pykbroker.server.guard import guarded
from pykbroker.server.handler import Answer, EncodedResponse, Handler, NoResponse, RequestContext
from wire.api import VERSIONS, ApiKey
from wire.apis import APIS, request_header_version, response_header_version
from wire.compile import decoder, encoder, stepwise_decoder, stepwise_encoder
from wire.declare import Buffer, Response
from wire.error_codes import ErrorCode
from wire.errors import DecodeError
from wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from wire.versions import parse_versions

HEAD = struct.Struct(">ii")
HEAD_TAGGED = struct.Struct(">iix")
SIZE_BYTES = 4
HISTOGRAM_BUCKETS = 40
JOINED_BYTES_MAX = 1 << 20
"""The maximum size of a large reply whose parts are joined into one buffer. Copying more takes too long."""
PARTS_MAX = 1000
"""The number of buffers of a large reply that are joined before other tasks may run."""


class Route:
    """One version of one API: its codec, its handler and its counters. Times are in ns."""

    __slots__ = (
        "answer_queue_ns",
        "bytes_in",
        "bytes_out",
        "decode",
        "encode",
        "errors",
        "handler",
        "histogram",
        "joins",
        "key",
        "local_ns",
        "pack_head",
        "queue_ns",
        "remote_ns",
        "size_extra",
        "tagged_header",
        "version",
    )

    def __init__(self, key: ApiKey, version: int, handler: Handler) -> None:
        api = APIS[key]
        self.key, self.version, self.handler = key, version, handler
        self.tagged_header = request_header_version(key, version) >= 2
        self.decode: Callable[[Buffer, int, int], Any] = decoder(api.request, version)
        self.encode: Callable[[Any, list[Any]], None] = encoder(api.response, version)
        head = HEAD_TAGGED if response_header_version(key, version) >= 1 else HEAD
        self.pack_head, self.size_extra = head.pack, head.size - SIZE_BYTES
        self.joins = key != ApiKey.FETCH
        """Whether the parts of a reply are joined into one buffer, which is faster for small replies.

        It is false for Fetch.
        """
        self.bytes_in = self.bytes_out = self.errors = 0
        self.queue_ns = self.local_ns = self.remote_ns = self.answer_queue_ns = 0
        self.histogram = [0] * HISTOGRAM_BUCKETS
        """The number of requests by total time.

        The first bucket ends at 1,024 ns, and each further bucket at twice the time.
        """

    def took(self, size: int, nanos_queued: int, nanos: int) -> None:
        """Count a request of `size` bytes that was answered at once."""
        self.bytes_in += size
        self.queue_ns += nanos_queued
        self.local_ns += nanos
        self.histogram[(nanos >> 10).bit_length()] += 1

    def parked(self, size: int, nanos_queued: int, nanos: int) -> None:
        """Count a request that begins to wait. Its total time is counted later by `finished`."""
        self.bytes_in += size
        self.queue_ns += nanos_queued
        self.local_ns += nanos

    def finished(self, nanos_parked: int, nanos: int) -> None:
        """Count a request whose wait has ended. `nanos` is the time since the request began."""
        self.remote_ns += nanos_parked
        self.histogram[min((nanos >> 10).bit_length(), HISTOGRAM_BUCKETS - 1)] += 1

    def frame(self, correlation_id: int, response: Response, out: list[Any]) -> None:
        """Append the reply to `out` as a frame, beginning with its size."""
        parts: list[Any] = []
        joins = self.joins
        if type(response) is EncodedResponse:
            parts = response.parts
            joins = joins and sum(map(len, parts)) <= JOINED_BYTES_MAX
        else:
            self.encode(response, parts)
        if joins:
            body = b"".join(parts)
            size = len(body) + self.size_extra
            out.append(self.pack_head(size, correlation_id) + body)
        else:
            size = sum(map(len, parts)) + self.size_extra
            out.append(self.pack_head(size, correlation_id))
            out += parts
        self.bytes_out += size

    def decode_in_steps(self, data: Buffer, pos: int, end: int) -> Steps[Any]:
        """Decode a request as `decode` does, and yield after each element of an array so that other tasks can run."""
        return stepwise_decoder(APIS[self.key].request, self.version)(data, pos, end)

    def encode_in_steps(self, response: Response) -> Steps[Response]:
        """Encode a response as `encode` does, and yield after each element of an array so that other tasks can run."""
        if isinstance(response, EncodedResponse | NoResponse):
            return response
        parts: list[Any] = []
        joined: list[Any] = []
        for _ in stepwise_encoder(type(response), self.version)(response, parts):
            if self.joins and len(parts) > PARTS_MAX:
                joined.append(b"".join(parts))
                parts.clear()
            yield
        return EncodedResponse(joined + parts)


def served(handlers: Iterable[Handler], *, by_controller: bool = False) -> tuple[ApiVersion, ...]:
    """Return the versions of these handlers as Kafka advertises them in ApiVersions.

    `by_controller` is true for the listeners of controllers, which advertise all their APIs.
    """
    answer = []
    for handler in sorted(handlers, key=lambda handler: handler.key):
        api, versions = APIS[handler.key], parse_versions(handler.versions)
        advertised = api.accepted if by_controller else api.advertised
        if advertised is None:
            continue  # this version is served, but not advertised
        whole = versions.first <= api.accepted.first
        answer.append(
            ApiVersion(
                api_key=handler.key,
                min_version=advertised.first if whole else versions.first,
                max_version=min(versions.last, advertised.last),
            )
        )
    return tuple(answer)


class UnbuiltHandler(Handler):
    """The handler of a request whose real handler could not be built, for example because no file could be opened."""

    __slots__ = ("error", "key")

    def __init__(self, key: ApiKey, error: Exception) -> None:
        self.key, self.error = key, error  # type: ignore[misc]

    def __call__(self, context: RequestContext, request: Any) -> Answer:
        raise self.error


class DeferredHandler(Handler):
    """The handler of an API of which no request has come yet.

    It is served in all versions. `family` builds the real handlers of several APIs, and returns the same at each call.
    """

    __slots__ = ("family", "key", "versions")

    def __init__(self, key: ApiKey, family: Callable[[], Mapping[ApiKey, Handler]]) -> None:
        self.key, self.family = key, family  # type: ignore[misc]
        self.versions, _ = VERSIONS[key]  # type: ignore[misc]

    @property
    def built(self) -> Handler:
        """Return the real handler, after building it at the first call. If that fails, the next call tries it again."""
        try:
            return self.family()[self.key]
        except Exception as error:  # noqa: BLE001 - the request fails, as if the real handler had raised it
            return UnbuiltHandler(self.key, error)

    def __call__(self, context: RequestContext, request: Any) -> Answer:
        return self.built(context, request)


class ApiTable(dict[int, Route]):
    """The routes by `API key << 16 | version`, compiled on first use, which also builds a deferred handler.

    A look-up raises DecodeError if the API or version is not served.
    """

    def __init__(self, handlers: Iterable[Handler]) -> None:
        super().__init__()
        self.handlers: dict[ApiKey, Handler] = {}
        for handler in handlers:
            if handler.key in self.handlers:
                raise ValueError(f"two handlers for {handler.key.name}")
            self.handlers[handler.key] = handler

    def __missing__(self, key_version: int) -> Route:
        key, version = key_version >> 16, key_version & 0xFFFF
        handler = self.handlers.get(key)  # type: ignore[call-overload]
        if handler is None:
            raise DecodeError(f"API key {key} is not served here")
        if version in parse_versions(handler.versions):
            if isinstance(handler, DeferredHandler):
                handler = handler.built
            route = Route(handler.key, version, guarded(handler))
            if not isinstance(handler, UnbuiltHandler):
                self[key_version] = route
            return route
        if key == ApiKey.API_VERSIONS:
            return UnsupportedApiVersions(handler.versions).route()
        raise DecodeError(f"{handler.key.name} version {version} is not supported, only {handler.versions}")


class UnsupportedApiVersions(Handler):
    """The handler for an ApiVersions version that is not served.

    It returns error 35 and the served range in a version 0 body.
    """

    key = ApiKey.API_VERSIONS

    def __init__(self, versions: str) -> None:
        self._served = parse_versions(versions)

    def __call__(self, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
        version = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=self._served.first, max_version=self._served.last)
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[version])

    def route(self) -> Route:
        """Return a route that does not decode the request (KIP-511)."""
        route = Route(self.key, 0, self)
        route.decode = lambda buffer, pos, end: ApiVersionsRequest()
        return route
