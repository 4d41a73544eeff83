"""AlterUserScramCredentials and DescribeUserScramCredentials over the wire."""

from __future__ import annotations

from typing import Any

from tests.unit.apis.conftest import Client
from wire.error_codes import ErrorCode
from wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName


async def alter(
    client: Client, *upsertions: tuple[str, int, int], deletions: tuple[tuple[str, int], ...] = ()
) -> dict[str, tuple[ErrorCode, str | None]]:
    response = await client.call(
        AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(*deletion) for deletion in deletions],
            upsertions=[ScramCredentialUpsertion(*upsertion, b"salt", b"salted") for upsertion in upsertions],
        ),
        0,
    )
    return {result.user: (ErrorCode(result.error_code), result.error_message) for result in response.results}


async def describe(client: Client, *users: str, everybody: bool = False) -> dict[str, Any]:
    wanted = None if everybody else [UserName(user) for user in users]
    response = await client.call(DescribeUserScramCredentialsRequest(users=wanted), 0)
    assert (response.error_code, response.error_message) == (0, "")
    return {
        result.user: [(info.mechanism, info.iterations) for info in result.credential_infos]
        or (ErrorCode(result.error_code), result.error_message)
        for result in response.results
    }


async def test_described_credentials_do_not_include_keys(client: Client) -> None:
    assert await describe(client) == {}
    assert await alter(client, ("ann", 1, 4096), ("bob", 2, 8192)) == {
        "ann": (ErrorCode.NONE, None),
        "bob": (ErrorCode.NONE, None),
    }
    assert await alter(client, ("ann", 2, 5000)) == {"ann": (ErrorCode.NONE, None)}
    everything = {"ann": [(1, 4096), (2, 5000)], "bob": [(2, 8192)]}
    assert await describe(client) == await describe(client, everybody=True) == everything
    assert await describe(client, "bob") == {"bob": [(2, 8192)]}


async def test_an_unknown_or_repeated_user_does_not_affect_other_users(client: Client) -> None:
    await alter(client, ("ann", 1, 4096), ("bob", 1, 4096))
    assert await describe(client, "ann", "bob", "bob", "eve") == {
        "ann": [(1, 4096)],
        "bob": (
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: bob",
        ),
        "eve": (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to describe a user credential that does not exist: eve"),
    }


async def test_a_refused_alteration_does_not_affect_other_users(client: Client) -> None:
    await alter(client, ("ann", 1, 4096))
    assert await alter(client, ("bob", 1, 1), ("eve", 1, 4096), deletions=(("ann", 1), ("nobody", 1))) == {
        "ann": (ErrorCode.NONE, None),
        "eve": (ErrorCode.NONE, None),
        "bob": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        "nobody": (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"),
    }
    assert await describe(client) == {"eve": [(1, 4096)]}
