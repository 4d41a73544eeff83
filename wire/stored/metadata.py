"""The catalogue of `__cluster_metadata` and its snapshots: the classes of records by type."""

from wire.declare import Buffer
from wire.stored import metadata_brokers as brokers
from wire.stored import metadata_marks as marks
from wire.stored import metadata_security as security
from wire.stored import metadata_settings as settings
from wire.stored import metadata_topics as topics
from wire.stored.framing import FramedRecord, decode_framed, encode_framed

METADATA_RECORDS: dict[int, type[FramedRecord]] = {
    cls.record_type: cls
    for cls in (
        brokers.RegisterBrokerRecord,
        brokers.UnregisterBrokerRecord,
        topics.TopicRecord,
        topics.PartitionRecord,
        settings.ConfigRecord,
        topics.PartitionChangeRecord,
        brokers.FenceBrokerRecord,
        brokers.UnfenceBrokerRecord,
        topics.RemoveTopicRecord,
        security.DelegationTokenRecord,
        security.UserScramCredentialRecord,
        settings.FeatureLevelRecord,
        settings.ClientQuotaRecord,
        settings.ProducerIdsRecord,
        brokers.BrokerRegistrationChangeRecord,
        security.AccessControlEntryRecord,
        security.RemoveAccessControlEntryRecord,
        marks.NoOpRecord,
        settings.ZkMigrationStateRecord,
        security.RemoveUserScramCredentialRecord,
        marks.BeginTransactionRecord,
        marks.EndTransactionRecord,
        marks.AbortTransactionRecord,
        security.RemoveDelegationTokenRecord,
        brokers.RegisterControllerRecord,
        topics.ClearElrRecord,
    )
}


def encode_metadata(record: FramedRecord, version: int) -> bytes:
    """Return the encoded value of a record. The cluster's metadata.version determines which version may be written."""
    return encode_framed(record, version)


def decode_metadata(value: Buffer) -> FramedRecord:
    """Return the record in a value. Raise UnknownRecordType, which is a DecodeError, if its type is unknown."""
    record, _ = decode_framed(METADATA_RECORDS, value)
    return record
