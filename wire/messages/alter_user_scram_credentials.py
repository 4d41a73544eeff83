"""The messages of AlterUserScramCredentials (API key 51), version 0, flexible."""

from typing import Annotated, ClassVar

from wire.api import ApiKey
from wire.declare import Int8, Int16, Int32, Request, Response, Struct, V


class ScramCredentialDeletion(Struct):
    name: str = ""
    mechanism: Int8 = 0


class ScramCredentialUpsertion(Struct):
    name: str = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: bytes = b""
    salted_password: bytes = b""


class AlterUserScramCredentialsRequest(Request["AlterUserScramCredentialsResponse"]):
    key: ClassVar = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    versions: ClassVar = "0"
    flexible: ClassVar = "0+"

    deletions: list[ScramCredentialDeletion] = []
    upsertions: list[ScramCredentialUpsertion] = []


class AlterUserScramCredentialsResult(Struct):
    user: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""


class AlterUserScramCredentialsResponse(Response):
    key: ClassVar = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    versions: ClassVar = "0"
    flexible: ClassVar = "0+"

    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult] = []
