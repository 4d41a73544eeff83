"""The messages of PushTelemetry (API key 72), version 0, flexible."""

from wire.declare import NIL, UUID, Bool, Int8, Int16, Int32, Request, Response


class PushTelemetryRequest(Request["PushTelemetryResponse"]):
    client_instance_id: UUID = NIL
    subscription_id: Int32 = 0
    terminating: Bool = False
    compression_type: Int8 = 0
    metrics: bytes = b""


class PushTelemetryResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
