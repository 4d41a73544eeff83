"""The SCRAM credentials of users: requests that add, list and remove them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pykbroker.client.admin.admin import Admin, check
from pykbroker.core.security.sasl.scram import ITERATIONS_MIN, SCRAM_HASHES, ScramHash, salted_password
from pykbroker.core.security.secret import Secret
from wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest

if TYPE_CHECKING:
    from wire.messages.describe_user_scram_credentials import CredentialInfo


async def describe_users(admin: Admin) -> dict[str, list[CredentialInfo]]:
    """Return the credentials of all users by name. ApiError."""
    answer = await admin.connection.ask(DescribeUserScramCredentialsRequest(users=None))
    check(answer.error_code, answer.error_message or "users")
    return {result.user: result.credential_infos for result in answer.results}


async def add_user(admin: Admin, name: str, password: Secret, new_salt: Callable[[], bytes]) -> None:
    """Let a user log in by each SCRAM mechanism with this password, and with no earlier one. ApiError.

    `new_salt` returns a random salt.
    """
    for of in SCRAM_HASHES.values():  # a request alters a user once
        await alter(admin, AlterUserScramCredentialsRequest(upsertions=[upsertion(name, password, of, new_salt())]))


async def remove_user(admin: Admin, name: str, mechanisms: Iterable[int]) -> None:
    """Remove the credentials of a user for these mechanisms. ApiError."""
    for mechanism in mechanisms:
        await alter(admin, AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name, mechanism)]))


async def alter(admin: Admin, request: AlterUserScramCredentialsRequest) -> None:
    """Make the changes of a request. ApiError: one is refused."""
    answer = await admin.connection.ask(request)
    for result in answer.results:
        check(result.error_code, f"user {result.user}: {result.error_message or 'refused'}")


def upsertion(name: str, password: Secret, of: ScramHash, salt: bytes) -> ScramCredentialUpsertion:
    """Return the new credential of a user for one mechanism. It takes milliseconds."""
    salted = salted_password(of, password.reveal(), salt, ITERATIONS_MIN)
    return ScramCredentialUpsertion(name, of.number, ITERATIONS_MIN, salt, salted)
