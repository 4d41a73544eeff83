"""GetTelemetrySubscriptions (71), v0: return the metrics that a client should push, and the push interval (KIP-714).

The API is answered but not advertised in ApiVersions, because the broker drops the metrics that clients push.
"""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.core.ids import Randomness, new_id
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.telemetry.clients import TelemetryClients
from pykbroker.core.telemetry.subscriptions import properties
from pykbroker.server.handler import ApiHandler, RequestContext
from wire.declare import NIL
from wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from wire.records.compression import Codec

NS_PER_MS = 1_000_000
ACCEPTED = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)


class GetTelemetrySubscriptions(ApiHandler, frozen=True):
    """A handler that assigns a client instance id to a client without one."""

    clients: TelemetryClients
    image: Callable[[], MetadataImage]
    rng: Randomness
    ticks_ns: Callable[[], int]
    bytes_max: int

    def __call__(
        self, context: RequestContext, request: GetTelemetrySubscriptionsRequest
    ) -> GetTelemetrySubscriptionsResponse:
        instance_id = new_id(self.rng) if request.client_instance_id == NIL else request.client_instance_id
        who = properties(instance_id, context.client_id, context.session.client_host, context.session.client_port)
        wanted = self.clients.client(instance_id, who, self.image().configs).ask(self.ticks_ns() / NS_PER_MS)
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=instance_id,
            subscription_id=wanted.id,
            accepted_compression_types=[*ACCEPTED],
            push_interval_ms=wanted.interval_ms,
            telemetry_max_bytes=self.bytes_max,
            delta_temporality=True,
            requested_metrics=[*wanted.metrics],
        )
