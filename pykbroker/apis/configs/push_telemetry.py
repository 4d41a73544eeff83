"""PushTelemetry (72), v0: validate a client's metrics as Kafka does, and drop them (KIP-714)."""

from __future__ import annotations

from collections.abc import Callable

from pykbroker.core.errors import ApiError
from pykbroker.core.ids import UNASSIGNED
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.telemetry.clients import TelemetryClient, TelemetryClients
from pykbroker.core.telemetry.subscriptions import properties
from pykbroker.server.handler import ApiHandler, RequestContext
from wire.declare import NIL
from wire.error_codes import ErrorCode
from wire.errors import DecodeError
from wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from wire.records.compression import Codec, decompress

NS_PER_MS = 1_000_000
RESERVED = (NIL, UNASSIGNED)


class PushTelemetry(ApiHandler, frozen=True):
    """A handler that limits metrics to `bytes_max` (telemetry.max.bytes), both compressed and decompressed."""

    clients: TelemetryClients
    image: Callable[[], MetadataImage]
    ticks_ns: Callable[[], int]
    bytes_max: int

    def __call__(self, context: RequestContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
        instance_id = request.client_instance_id
        if instance_id in RESERVED:
            raise ApiError(ErrorCode.INVALID_REQUEST, "no client has this id")
        who = properties(instance_id, context.client_id, context.session.client_host, context.session.client_port)
        client = self.clients.client(instance_id, who, self.image().configs)
        try:
            self._take(client, request)
        except ApiError as error:
            client.last_error = error.code
            raise
        client.last_error = ErrorCode.NONE
        return PushTelemetryResponse()

    def _take(self, client: TelemetryClient, request: PushTelemetryRequest) -> None:
        client.push(request.subscription_id, self.ticks_ns() / NS_PER_MS, terminating=request.terminating)
        try:
            codec = Codec(request.compression_type)
        except ValueError:
            raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE) from None
        if len(request.metrics) > self.bytes_max:
            raise ApiError(ErrorCode.TELEMETRY_TOO_LARGE)
        if request.metrics:
            try:
                decompress(codec, request.metrics, self.bytes_max)
            except DecodeError as error:
                raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from None
