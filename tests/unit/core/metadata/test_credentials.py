"""Tests of stored SCRAM credentials, whose keys are computed as in RFC 7677."""

from __future__ import annotations

import base64
import hashlib

import pytest

from tests.unit.core.metadata.harness import ControllerHarness
from wire.error_codes import ErrorCode
from wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from wire.stored.metadata_security import UserScramCredentialRecord

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
KEYS = ("WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=", "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=")
"""The stored key and the server key for the password "pencil", from the example in RFC 7677, section 3."""


def kept(mechanism: int, digest: str) -> UserScramCredentialRecord:
    """Return the stored credential for the password "pencil" with this hash function."""
    salted = hashlib.pbkdf2_hmac(digest, b"pencil", SALT, 4096)
    harness = ControllerHarness().bootstrap()
    harness.ask(
        AlterUserScramCredentialsRequest(upsertions=[ScramCredentialUpsertion("user", mechanism, 4096, SALT, salted)])
    )
    (record,) = harness.freeze().image.records.of(UserScramCredentialRecord)
    assert harness.replayed().records.of(UserScramCredentialRecord) == [record]
    return record


def test_an_empty_password_is_refused() -> None:
    harness = ControllerHarness().bootstrap()
    (result,) = harness.ask(
        AlterUserScramCredentialsRequest(upsertions=[ScramCredentialUpsertion("user", 1, 4096, SALT, b"")])
    ).results
    assert (result.error_code, harness.decided) == (ErrorCode.UNACCEPTABLE_CREDENTIAL, ())


def test_stored_keys_equal_the_example_of_the_rfc() -> None:
    record = kept(1, "sha256")
    assert (record.name, record.mechanism, record.iterations, record.salt) == ("user", 1, 4096, SALT)
    assert tuple(base64.b64encode(key).decode() for key in (record.stored_key, record.server_key)) == KEYS


@pytest.mark.parametrize(("mechanism", "digest", "size"), [(1, "sha256", 32), (2, "sha512", 64)])
def test_the_keys_of_each_mechanism_have_the_size_of_its_hash(mechanism: int, digest: str, size: int) -> None:
    record = kept(mechanism, digest)
    assert (len(record.stored_key), len(record.server_key)) == (size, size)
