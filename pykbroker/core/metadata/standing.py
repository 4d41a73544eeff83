"""Records that the controller only stores: quotas, credentials, delegation tokens.

The last record of a key is current. It is deleted by a removal, which is a record of another type.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from pykbroker.core.metadata.draft import ImageDraft
from wire.stored.framing import FramedRecord
from wire.stored.metadata_security import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from wire.stored.metadata_settings import ClientQuotaRecord, ZkMigrationStateRecord


def _quota_key(record: ClientQuotaRecord) -> Hashable:
    """Return the key of a quota: its entity and its name. The default entity sorts first."""
    return quota_entity((part.entity_type, part.entity_name) for part in record.entity), record.key


def quota_entity(parts: Iterable[tuple[str, str | None]]) -> Hashable:
    """Return a key that is equal for entities with the same types and names, in any order."""
    return tuple(sorted((kind, name is not None, name or "") for kind, name in parts))


def _scram_key(record: UserScramCredentialRecord | RemoveUserScramCredentialRecord) -> Hashable:
    return record.name, record.mechanism


KEYS: dict[type[FramedRecord], Callable[[Any], Hashable]] = {
    ClientQuotaRecord: _quota_key,
    UserScramCredentialRecord: _scram_key,
    DelegationTokenRecord: lambda record: record.token_id,
    ZkMigrationStateRecord: lambda record: 0,
}
"""Functions that return the key of a record among the records of its class. Keys of one class can be sorted."""

REMOVALS: dict[type[FramedRecord], tuple[type[FramedRecord], Callable[[Any], Hashable]]] = {
    RemoveUserScramCredentialRecord: (UserScramCredentialRecord, _scram_key),
    RemoveDelegationTokenRecord: (DelegationTokenRecord, lambda record: record.token_id),
}


def store(draft: ImageDraft, record: FramedRecord) -> None:
    """Store a record, and replace the record with the same key."""
    cls = type(record)
    if isinstance(record, ClientQuotaRecord) and record.remove:
        draft.records.rows().pop((cls.record_type, _quota_key(record)), None)
    else:
        draft.records.rows()[cls.record_type, KEYS[cls](record)] = record


def remove(draft: ImageDraft, record: FramedRecord) -> None:
    """Remove the stored record that a removal record names, if there is one."""
    removed, key = REMOVALS[type(record)]
    draft.records.rows().pop((removed.record_type, key(record)), None)
