"""The messages of ExpireDelegationToken (API key 40), versions 1-2, flexible from version 2.

- Version 2 is flexible.
"""

from wire.declare import Int16, Int32, Int64, Request, Response, SecretBytes


class ExpireDelegationTokenRequest(Request["ExpireDelegationTokenResponse"]):
    hmac: SecretBytes = b""
    expiry_time_period_ms: Int64 = 0


class ExpireDelegationTokenResponse(Response):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
