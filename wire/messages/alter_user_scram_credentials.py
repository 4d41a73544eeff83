"""The messages of AlterUserScramCredentials (API key 51), version 0, flexible."""

from typing import Annotated

from wire.declare import Int8, Int16, Int32, Request, Response, SecretBytes, Struct, V


class ScramCredentialDeletion(Struct):
    name: str = ""
    mechanism: Int8 = 0


class ScramCredentialUpsertion(Struct):
    name: str = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: SecretBytes = b""
    salted_password: SecretBytes = b""


class AlterUserScramCredentialsRequest(Request["AlterUserScramCredentialsResponse"]):
    deletions: list[ScramCredentialDeletion] = []
    upsertions: list[ScramCredentialUpsertion] = []


class AlterUserScramCredentialsResult(Struct):
    user: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, V(nullable="0+")] = ""


class AlterUserScramCredentialsResponse(Response):
    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult] = []
