"""The messages of PushTelemetry (API key 72), version 0, flexible."""

from typing import ClassVar

from wire.api import ApiKey
from wire.declare import NIL, UUID, Bool, Int8, Int16, Int32, Request, Response


class PushTelemetryRequest(Request["PushTelemetryResponse"]):
    key: ClassVar = ApiKey.PUSH_TELEMETRY
    versions: ClassVar = "0"
    flexible: ClassVar = "0+"

    client_instance_id: UUID = NIL
    subscription_id: Int32 = 0
    terminating: Bool = False
    compression_type: Int8 = 0
    metrics: bytes = b""


class PushTelemetryResponse(Response):
    key: ClassVar = ApiKey.PUSH_TELEMETRY
    versions: ClassVar = "0"
    flexible: ClassVar = "0+"

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
