"""The messages of DescribeUserScramCredentials (API key 50), version 0, flexible."""

from typing import Annotated

from wire.declare import Int8, Int16, Int32, Request, Response, Struct, V


class UserName(Struct):
    name: str = ""


class DescribeUserScramCredentialsRequest(Request["DescribeUserScramCredentialsResponse"]):
    users: Annotated[list[UserName] | None, V(nullable="0+")] = []


class CredentialInfo(Struct):
    mechanism: Int8 = 0
    iterations: Int32 = 0


class DescribeUserScramCredentialsResult(Struct):
    user: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    credential_infos: list[CredentialInfo] = []


class DescribeUserScramCredentialsResponse(Response):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""
    results: list[DescribeUserScramCredentialsResult] = []
