"""Metadata records about ACLs, SCRAM credentials and delegation tokens."""

from typing import ClassVar

from wire.declare import NIL, UUID, Int8, Int32, Int64, SecretBytes
from wire.stored.framing import FramedRecord


class AccessControlEntryRecord(FramedRecord):
    """The addition of an ACL."""

    record_type: ClassVar = 18

    id: UUID = NIL
    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Int8 = 0
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class RemoveAccessControlEntryRecord(FramedRecord):
    """The removal of an ACL."""

    record_type: ClassVar = 19

    id: UUID = NIL


class UserScramCredentialRecord(FramedRecord):
    """A new SCRAM credential of a user."""

    record_type: ClassVar = 11

    name: str = ""
    mechanism: Int8 = 0
    salt: SecretBytes = b""
    stored_key: SecretBytes = b""
    server_key: SecretBytes = b""
    iterations: Int32 = 0


class RemoveUserScramCredentialRecord(FramedRecord):
    """The removal of a SCRAM credential."""

    record_type: ClassVar = 22

    name: str = ""
    mechanism: Int8 = 0


class DelegationTokenRecord(FramedRecord):
    """A new or renewed delegation token."""

    record_type: ClassVar = 10

    owner: str = ""
    requester: str = ""
    renewers: list[str] = []
    issue_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    expiration_timestamp: Int64 = 0
    token_id: str = ""


class RemoveDelegationTokenRecord(FramedRecord):
    """The removal of a delegation token, which may have expired."""

    record_type: ClassVar = 26

    token_id: str = ""
