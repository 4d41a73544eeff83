"""DescribeUserScramCredentials (50), v0: return the SCRAM mechanisms and iterations of users (KIP-554).

A null or empty list of users requests all users. Salts and keys are never returned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from pykbroker.core.metadata.image import MetadataImage
from pykbroker.server.handler import ApiHandler, RequestContext
from wire.error_codes import ErrorCode
from wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from wire.stored.metadata_security import UserScramCredentialRecord


class DescribeUserScramCredentials(ApiHandler, frozen=True):
    """A handler that reads the image and describes each user once."""

    image: Callable[[], MetadataImage]

    def __call__(
        self, context: RequestContext, request: DescribeUserScramCredentialsRequest
    ) -> DescribeUserScramCredentialsResponse:
        known: dict[str, list[CredentialInfo]] = {}
        for record in self.image().records.of(UserScramCredentialRecord):
            known.setdefault(record.name, []).append(CredentialInfo(record.mechanism, record.iterations))
        wanted = Counter(user.name for user in request.users or ()) or dict.fromkeys(known, 1)
        return DescribeUserScramCredentialsResponse(
            results=[described(name, times, known.get(name)) for name, times in wanted.items()]
        )


def described(name: str, times: int, infos: list[CredentialInfo] | None) -> DescribeUserScramCredentialsResult:
    """Return one user's result; a user named more than once, or without credentials, gets an error."""
    if times > 1:
        return DescribeUserScramCredentialsResult(
            name,
            ErrorCode.DUPLICATE_RESOURCE,
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    if infos is None:
        return DescribeUserScramCredentialsResult(
            name, ErrorCode.RESOURCE_NOT_FOUND, f"Attempt to describe a user credential that does not exist: {name}"
        )
    return DescribeUserScramCredentialsResult(name, credential_infos=infos)
