"""The clients that recently asked for subscriptions or pushed metrics, with their subscriptions and last requests."""

from __future__ import annotations

from collections import OrderedDict
from math import inf

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.image import ConfigsImage
from pykbroker.core.telemetry.subscriptions import ClientProperties, RequestedMetrics, requested_metrics, subscriptions
from wire.error_codes import ErrorCode

CLIENTS_MAX = 16_384
"""The number of clients that Kafka remembers too (`ClientMetricsManager.CACHE_MAX_SIZE`)."""
ASK_ANEW = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
"""Errors after which a client may ask for subscriptions before its interval has passed."""


class TelemetryClient(msgspec.Struct):
    """One client instance. Times are in ms of a monotonic clock."""

    requested: RequestedMetrics
    asked_at_ms: float = -inf
    pushed_at_ms: float = -inf
    last_error: ErrorCode = ErrorCode.NONE
    terminating: bool = False

    def ask(self, now_ms: float) -> RequestedMetrics:
        """Return the metrics that the client should push.

        Raise ApiError THROTTLING_QUOTA_EXCEEDED if the client's interval has not passed.
        """
        if now_ms - max(self.asked_at_ms, self.pushed_at_ms) >= self.requested.interval_ms:
            self.asked_at_ms = now_ms
        elif self.last_error not in ASK_ANEW:
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self.last_error = ErrorCode.NONE
        return self.requested

    def push(self, subscription_id: int, now_ms: float, *, terminating: bool) -> None:
        """Accept the client's metrics. `terminating` marks its last push.

        Raise ApiError if the client has already terminated, pushes too early, or sends an outdated subscription id.
        """
        if self.terminating:
            raise ApiError(ErrorCode.INVALID_REQUEST, "the client has already sent its terminating push")
        self.terminating = terminating
        if self.asked_at_ms > self.pushed_at_ms or now_ms - self.pushed_at_ms >= self.requested.interval_ms:
            self.pushed_at_ms = now_ms
        elif not terminating:
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        if subscription_id != self.requested.id:
            raise ApiError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)


class TelemetryClients:
    """A cache of at most `CLIENTS_MAX` clients. The least recently seen client is dropped first."""

    def __init__(self) -> None:
        self._clients: OrderedDict[bytes, TelemetryClient] = OrderedDict()
        self._configs = ConfigsImage()
        self._subscriptions = subscriptions(self._configs)

    def client(self, instance_id: bytes, properties: ClientProperties, configs: ConfigsImage) -> TelemetryClient:
        """Return the state of the client, created if needed. A change of the subscriptions drops all clients."""
        if configs is not self._configs:
            self._follow(configs)
        client = self._clients.get(instance_id)
        if client is None:
            client = TelemetryClient(requested_metrics(instance_id, properties, self._subscriptions))
            self._clients[instance_id] = client
            if len(self._clients) > CLIENTS_MAX:
                self._clients.popitem(last=False)
        self._clients.move_to_end(instance_id)
        return client

    def _follow(self, configs: ConfigsImage) -> None:
        """Read the subscriptions again, and drop all clients if the subscriptions changed."""
        self._configs, before = configs, self._subscriptions
        self._subscriptions = subscriptions(configs)
        if self._subscriptions != before:
            self._clients.clear()
