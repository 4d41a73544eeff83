"""The messages of CreateDelegationToken (API key 38), versions 1-3, flexible from version 2.

- Version 2 is flexible.
- Version 3 adds `owner_principal_type` and `owner_principal_name` to the request. It adds
  `token_requester_principal_type` and `token_requester_principal_name` to the response.
"""

from typing import Annotated

from wire.declare import Int16, Int32, Int64, Request, Response, SecretBytes, Struct, V


class CreatableRenewers(Struct):
    principal_type: str = ""
    principal_name: str = ""


class CreateDelegationTokenRequest(Request["CreateDelegationTokenResponse"]):
    owner_principal_type: Annotated[str | None, V("3+", nullable="3+")] = ""
    owner_principal_name: Annotated[str | None, V("3+", nullable="3+")] = ""
    renewers: list[CreatableRenewers] = []
    max_lifetime_ms: Int64 = 0


class CreateDelegationTokenResponse(Response):
    error_code: Int16 = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: Annotated[str, V("3+")] = ""
    token_requester_principal_name: Annotated[str, V("3+")] = ""
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: str = ""
    hmac: SecretBytes = b""
    throttle_time_ms: Int32 = 0
