"""The messages of GetTelemetrySubscriptions (API key 71), version 0, flexible."""

from wire.declare import NIL, UUID, Bool, Int8, Int16, Int32, Request, Response


class GetTelemetrySubscriptionsRequest(Request["GetTelemetrySubscriptionsResponse"]):
    client_instance_id: UUID = NIL


class GetTelemetrySubscriptionsResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: UUID = NIL
    subscription_id: Int32 = 0
    accepted_compression_types: list[Int8] = []
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: Bool = False
    requested_metrics: list[str] = []
