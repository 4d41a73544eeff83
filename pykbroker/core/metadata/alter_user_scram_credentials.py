"""AlterUserScramCredentials: salted passwords of users, for each SCRAM mechanism (KIP-554, RFC 5802).

A request alters a user once, completely or not at all. A change holds for the next log-in of the user.
"""

from __future__ import annotations

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.context import ControllerContext, Deciding
from pykbroker.core.metadata.record import Record
from pykbroker.core.security.sasl.scram import ITERATIONS_MAX, ITERATIONS_MIN, SCRAM_HASHES, salted_credential
from pykbroker.core.steps import each
from wire.error_codes import ErrorCode
from wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from wire.stored.metadata_security import RemoveUserScramCredentialRecord, UserScramCredentialRecord

MECHANISMS = {of.number: of for of in SCRAM_HASHES.values()}

Alteration = ScramCredentialDeletion | ScramCredentialUpsertion


def alter_user_scram_credentials(context: ControllerContext, request: AlterUserScramCredentialsRequest) -> Deciding:
    """Return the metadata records and the response: deletions first, then upsertions. Each user has one result."""
    alterations: list[Alteration] = [*request.deletions, *request.upsertions]
    accepted: dict[str, Alteration] = {}
    refused: dict[str, ApiError] = {}
    for alteration in alterations:
        yield
        name = alteration.name
        if name in refused:
            continue
        try:
            if accepted.pop(name, None) is not None:
                raise ApiError(
                    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
                )
            _check(context, alteration)
            accepted[name] = alteration
        except ApiError as error:
            refused[name] = error
    results = [AlterUserScramCredentialsResult(user=name, error_message=None) for name in accepted]
    results += [
        AlterUserScramCredentialsResult(user=name, error_code=error.code, error_message=error.message)
        for name, error in refused.items()
    ]
    records = yield from each(_record, accepted.values())
    return records, AlterUserScramCredentialsResponse(results=results)


def _check(context: ControllerContext, alteration: Alteration) -> None:
    if not alteration.name:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if alteration.mechanism not in MECHANISMS:
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(alteration, ScramCredentialDeletion):
        key = UserScramCredentialRecord.record_type, (alteration.name, alteration.mechanism)
        if key not in context.draft.records:
            raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    elif alteration.iterations < ITERATIONS_MIN:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    elif alteration.iterations > ITERATIONS_MAX:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    elif not alteration.salted_password:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salted password must not be empty")


def _record(alteration: Alteration) -> Record:
    if isinstance(alteration, ScramCredentialDeletion):
        return RemoveUserScramCredentialRecord(name=alteration.name, mechanism=alteration.mechanism)
    made = salted_credential(
        MECHANISMS[alteration.mechanism],
        bytes(alteration.salted_password),
        bytes(alteration.salt),
        alteration.iterations,
    )
    return UserScramCredentialRecord(
        name=alteration.name,
        mechanism=alteration.mechanism,
        salt=made.salt,
        stored_key=made.stored_key,
        server_key=made.server_key,
        iterations=made.iterations,
    )
