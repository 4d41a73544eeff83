"""The messages of DescribeDelegationToken (API key 41), versions 1-3, flexible from version 2.

- Version 2 is flexible.
- Version 3 adds `token_requester_principal_type` and `token_requester_principal_name` to the response.
"""

from typing import Annotated

from wire.declare import Int16, Int32, Int64, Request, Response, SecretBytes, Struct, V


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = ""
    principal_name: str = ""


class DescribeDelegationTokenRequest(Request["DescribeDelegationTokenResponse"]):
    owners: Annotated[list[DescribeDelegationTokenOwner] | None, V(nullable="0+")] = []


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = ""
    principal_name: str = ""


class DescribedDelegationToken(Struct):
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: Annotated[str, V("3+")] = ""
    token_requester_principal_name: Annotated[str, V("3+")] = ""
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: str = ""
    hmac: SecretBytes = b""
    renewers: list[DescribedDelegationTokenRenewer] = []


class DescribeDelegationTokenResponse(Response):
    error_code: Int16 = 0
    tokens: list[DescribedDelegationToken] = []
    throttle_time_ms: Int32 = 0
