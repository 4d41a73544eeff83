"""Records that stand for themselves: the last one of a key is the truth, and another type of record removes it.

Nothing in the controller acts on them: access control entries, quotas, credentials, delegation tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from pykbroker.core.metadata.draft import ImageDraft
from wire.stored.framing import FramedRecord
from wire.stored.metadata_security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from wire.stored.metadata_settings import ClientQuotaRecord, ZkMigrationStateRecord


def _quota_key(record: ClientQuotaRecord) -> Hashable:
    """The entity, where null is its default and sorts first, and which of its quotas."""
    return quota_entity((part.entity_type, part.entity_name) for part in record.entity), record.key


def quota_entity(parts: Iterable[tuple[str, str | None]]) -> Hashable:
    """What tells one entity (types and names) from others, in whatever order its parts come."""
    return tuple(sorted((kind, name is not None, name or "") for kind, name in parts))


def _scram_key(record: UserScramCredentialRecord | RemoveUserScramCredentialRecord) -> Hashable:
    return record.name, record.mechanism


KEYS: dict[type[FramedRecord], Callable[[Any], Hashable]] = {
    ClientQuotaRecord: _quota_key,
    AccessControlEntryRecord: lambda record: record.id,
    UserScramCredentialRecord: _scram_key,
    DelegationTokenRecord: lambda record: record.token_id,
    ZkMigrationStateRecord: lambda record: 0,
}
"""What tells two records of a class apart; keys of one class can be sorted."""

REMOVALS: dict[type[FramedRecord], tuple[type[FramedRecord], Callable[[Any], Hashable]]] = {
    RemoveAccessControlEntryRecord: (AccessControlEntryRecord, lambda record: record.id),
    RemoveUserScramCredentialRecord: (UserScramCredentialRecord, _scram_key),
    RemoveDelegationTokenRecord: (DelegationTokenRecord, lambda record: record.token_id),
}


def stand(draft: ImageDraft, record: FramedRecord) -> None:
    """It takes the place of the one with its key."""
    cls = type(record)
    if isinstance(record, ClientQuotaRecord) and record.remove:
        draft.records.rows().pop((cls.record_type, _quota_key(record)), None)
    else:
        draft.records.rows()[cls.record_type, KEYS[cls](record)] = record


def fall(draft: ImageDraft, record: FramedRecord) -> None:
    """What it names is gone; naming what is not there changes nothing."""
    removed, key = REMOVALS[type(record)]
    draft.records.rows().pop((removed.record_type, key(record)), None)
