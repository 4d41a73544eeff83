"""Tests with the metadata logs of Apache Kafka: they are read, and the same requests lead to the same records."""

from __future__ import annotations

from collections import Counter

import pytest

from pykbroker.core.ids import id_bytes
from pykbroker.core.metadata.bootstrap import bootstrap_records, feature_records
from pykbroker.core.metadata.features import NEW_CLUSTER
from pykbroker.core.metadata.image import TOPIC_RESOURCE, MetadataImage
from pykbroker.core.metadata.record import Record, write_record
from pykbroker.core.metadata.snapshot import image_of, snapshot_records
from tests.unit.core.metadata.harness import CLEAN_LOG, NOW_MS, SNAPSHOTTED, golden_batches, golden_harness
from wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from wire.messages.delete_topics import DeleteTopicsRequest
from wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from wire.records.record import records
from wire.stored.metadata_brokers import RegisterBrokerRecord, RegisterControllerRecord
from wire.stored.metadata_marks import NoOpRecord
from wire.stored.metadata_security import UserScramCredentialRecord
from wire.stored.metadata_settings import ConfigRecord

SNAPSHOTTED_LOG = ("kraft-snapshot-and-dynamic", SNAPSHOTTED + "00000000000000000000.log")
KAFKAS_EPOCH = 238  # the broker epoch of the second start of the broker

COUNTS = {
    "AccessControlEntryRecord": 1,
    "BeginTransactionRecord": 1,
    "BrokerRegistrationChangeRecord": 7,
    "ClearElrRecord": 2,
    "ClientQuotaRecord": 1,
    "ConfigRecord": 45,
    "EndTransactionRecord": 1,
    "FeatureLevelRecord": 6,
    "NoOpRecord": 224,
    "PartitionChangeRecord": 96,
    "PartitionRecord": 35,
    "ProducerIdsRecord": 2,
    "RegisterBrokerRecord": 2,
    "RegisterControllerRecord": 2,
    "RemoveAccessControlEntryRecord": 1,
    "RemoveTopicRecord": 3,
    "TopicRecord": 20,
    "UserScramCredentialRecord": 1,
}  # counts of Kafka's DumpLogSegments


def test_our_count_of_each_record_type_equals_kafkas_dump() -> None:
    found = Counter(type(entry.value).__name__ for _, entries in golden_batches(*CLEAN_LOG) for entry in entries)
    assert found == COUNTS


def test_every_record_is_encoded_byte_for_byte_as_kafka_wrote_it() -> None:
    for batch, entries in golden_batches(*SNAPSHOTTED_LOG):
        stored = [] if batch.is_control else [bytes(record.value or b"") for record in records(batch, 1 << 20)]
        written = [write_record(entry.value, 30) for entry in entries]
        for theirs, ours, entry in zip(stored, written, entries, strict=True):
            assert ours == theirs, entry


def test_the_image_equals_the_cluster_that_kafka_left() -> None:
    image = golden_harness(*CLEAN_LOG).freeze().image
    assert image.offset == 451
    assert image.features.levels == NEW_CLUSTER
    assert image.producer_ids.next_producer_id == 2000
    assert len(image.topics) == 17
    rolls = image.topics.by_name["rolls"]
    assert image.topics.by_id[rolls.id] is rolls
    assert sorted(rolls.partitions) == [0, 1]
    assert rolls.partitions[1].leader_epoch == 3
    assert rolls.partitions[1].elr == (1,)
    assert image.configs.topic("rolls") == {"segment.index.bytes": "1024", "internal.segment.bytes": "2000"}
    assert image.configs.cluster_default == {"min.insync.replicas": "1", "log.cleaner.threads": "1"}
    assert image.configs.topic("todelete") == {}
    broker = image.cluster.brokers[1]
    assert (broker.epoch, broker.fenced, broker.in_controlled_shutdown) == (KAFKAS_EPOCH, True, True)
    assert broker.directories == (id_bytes("eFY3g7xCOlPBlIy0q0wRtw"),)


@pytest.mark.parametrize(
    ("snapshot", "offset"),
    [("00000000000000000484-0000000003.checkpoint", 484), ("00000000000000000517-0000000003.checkpoint", 517)],
)
def test_a_snapshot_equals_the_log_before_it(snapshot: str, offset: int) -> None:
    read = image_of(golden_records(snapshot), offset - 1, 1, NOW_MS)
    assert read == golden_harness(*SNAPSHOTTED_LOG, until=offset).freeze().image


def golden_records(snapshot: str) -> list[Record]:
    return [
        entry.value
        for _, entries in golden_batches("kraft-snapshot-and-dynamic", SNAPSHOTTED + snapshot)
        for entry in entries
    ]


@pytest.mark.parametrize(
    ("snapshot", "offset"),
    [("00000000000000000484-0000000003.checkpoint", 484), ("00000000000000000517-0000000003.checkpoint", 517)],
)
def test_our_snapshot_has_the_same_records_as_kafkas(snapshot: str, offset: int) -> None:
    image = golden_harness(*SNAPSHOTTED_LOG, until=offset).freeze().image
    ours = list(snapshot_records(image))
    theirs = [record for record in golden_records(snapshot) if not is_orphan(record, image)]
    for record in theirs:
        if isinstance(record, RegisterBrokerRecord | RegisterControllerRecord):
            record.features.sort(key=lambda feature: feature.name)
    assert sorted(write_record(one, 30) for one in ours) == sorted(write_record(one, 30) for one in theirs)
    assert list(dict.fromkeys(map(type, ours))) == list(dict.fromkeys(map(type, theirs)))


def is_orphan(record: Record, image: MetadataImage) -> bool:
    return (
        isinstance(record, ConfigRecord)
        and record.resource_type == TOPIC_RESOURCE
        and record.resource_name not in image.topics.by_name
    )


def batch_at(offset: int, log: tuple[str, str] = CLEAN_LOG) -> list[Record]:
    return next(
        [entry.value for entry in entries if not isinstance(entry.value, NoOpRecord)]
        for batch, entries in golden_batches(*log)
        if batch.base_offset == offset
    )


def in_any_order(decided: list[Record] | tuple[Record, ...]) -> list[str]:
    return sorted(map(repr, decided))


def test_bootstrap_writes_the_same_records_as_kafka() -> None:
    assert bootstrap_records(feature_records(NEW_CLUSTER), 1) == batch_at(1)


def test_registration_writes_the_same_record_as_kafka() -> None:
    (theirs,) = batch_at(11)
    assert isinstance(theirs, RegisterBrokerRecord)
    harness = golden_harness(*CLEAN_LOG, until=11)
    harness.ask(
        BrokerRegistrationRequest(
            broker_id=1,
            cluster_id=harness.settings.cluster_id,
            incarnation_id=theirs.incarnation_id,
            rack=None,
            listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=19192)],
            features=[
                Feature(
                    name=feature.name,
                    min_supported_version=feature.min_supported_version,
                    max_supported_version=feature.max_supported_version,
                )
                for feature in theirs.features
            ],
            log_dirs=theirs.log_dirs,
        )
    )
    assert list(harness.decided) == [theirs]


@pytest.mark.parametrize(
    ("offset", "log", "epoch"),
    [(12, CLEAN_LOG, 11), (262, CLEAN_LOG, KAFKAS_EPOCH), (455, SNAPSHOTTED_LOG, 454)],
    ids=["first start", "after a kill", "after a clean stop"],
)
def test_unfencing_elects_the_same_leaders_as_kafka(offset: int, log: tuple[str, str], epoch: int) -> None:
    harness = golden_harness(*log, until=offset)
    harness.ask(BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=offset - 1))
    theirs = [record for record in batch_at(offset, log) if getattr(record, "cordoned_log_dirs", None) is None]
    assert in_any_order(harness.decided) == in_any_order(theirs)


@pytest.mark.parametrize(("offset", "log", "epoch"), [(422, CLEAN_LOG, KAFKAS_EPOCH), (489, SNAPSHOTTED_LOG, 454)])
def test_controlled_shutdown_writes_the_same_records_as_kafka(offset: int, log: tuple[str, str], epoch: int) -> None:
    harness = golden_harness(*log, until=offset)
    harness.ask(
        BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=offset - 1, want_shut_down=True)
    )
    assert in_any_order(harness.decided) == in_any_order(batch_at(offset, log))


def test_fencing_writes_the_same_records_as_kafka() -> None:
    harness = golden_harness(*CLEAN_LOG, until=211)
    harness.ask(BrokerHeartbeatRequest(broker_id=1, broker_epoch=11, current_metadata_offset=210, want_fence=True))
    assert in_any_order(harness.decided) == in_any_order(batch_at(211))


def test_a_registration_after_an_unclean_shutdown_removes_the_broker_from_every_elr() -> None:
    *changes, registration = batch_at(238)
    assert isinstance(registration, RegisterBrokerRecord)
    harness = golden_harness(*CLEAN_LOG, until=238)
    harness.ask(
        BrokerRegistrationRequest(
            broker_id=1,
            cluster_id=harness.settings.cluster_id,
            incarnation_id=registration.incarnation_id,
            rack=None,
            log_dirs=list(registration.log_dirs),
        )
    )
    assert in_any_order(harness.decided[:-1]) == in_any_order(changes)
    assert getattr(harness.decided[-1], "broker_epoch", None) == registration.broker_epoch


def without_ids(decided: list[Record] | tuple[Record, ...]) -> list[Record]:
    for record in decided:
        if hasattr(record, "topic_id"):
            record.topic_id = bytes(16)
    return list(decided)


def test_creating_topics_writes_the_same_records_as_kafka() -> None:
    harness = golden_harness(*CLEAN_LOG, until=79)
    internal = {
        "compression.type": "uncompressed",
        "cleanup.policy": "compact",
        "min.insync.replicas": "1",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }
    harness.configs.validate = lambda configs, dynamic: None  # type: ignore[method-assign]
    harness.ask(
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name="__transaction_state",
                    num_partitions=4,
                    replication_factor=1,
                    configs=[CreatableTopicConfig(name=name, value=value) for name, value in internal.items()],
                )
            ]
        )
    )
    assert without_ids(harness.decided) == without_ids(batch_at(79))


def test_creating_partitions_writes_the_same_records_as_kafka() -> None:
    harness = golden_harness(*CLEAN_LOG, until=300)
    harness.ask(CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="cov-593x", count=5, assignments=None)]))
    assert list(harness.decided) == batch_at(300)


def test_deleting_topics_writes_the_same_records_as_kafka() -> None:
    harness = golden_harness(*CLEAN_LOG, until=358)
    harness.ask(DeleteTopicsRequest(topic_names=["cov-593x", "cov2-593x"]))
    assert list(harness.decided) == batch_at(358)


def test_allocating_producer_ids_writes_the_same_record_as_kafka() -> None:
    harness = golden_harness(*CLEAN_LOG, until=316)
    response = harness.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=KAFKAS_EPOCH))
    assert list(harness.decided) == batch_at(316)
    assert (response.producer_id_start, response.producer_id_len) == (1000, 1000)


def test_altering_configs_writes_the_same_records_as_kafka() -> None:
    harness = golden_harness(*SNAPSHOTTED_LOG, until=302)
    changes = [
        AlterableConfig("cleanup.policy", 2, "compact"),
        AlterableConfig("max.message.bytes", 0, "2000000"),
        AlterableConfig("retention.ms", 1, None),
    ]
    harness.ask(IncrementalAlterConfigsRequest([AlterConfigsResource(2, "cov-593x", changes)]))
    assert in_any_order(harness.decided) == in_any_order(batch_at(302, SNAPSHOTTED_LOG))
    for offset, kind, name in [(305, 32, "cov-share"), (306, 16, "cm1"), (308, 4, "")]:
        theirs = batch_at(offset, SNAPSHOTTED_LOG)
        configs = [
            AlterableConfig(record.name, 0, record.value) for record in theirs if isinstance(record, ConfigRecord)
        ]
        harness.ask(IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, configs)]))
        assert in_any_order(harness.decided) == in_any_order(theirs)


def test_altering_quotas_and_credentials_writes_the_same_records_as_kafka() -> None:
    harness = golden_harness(*SNAPSHOTTED_LOG, until=312)
    harness.ask(
        AlterClientQuotasRequest(
            entries=[
                AlterClientQuotasRequestEntryData([EntityData("client-id", "cq")], [OpData("producer_byte_rate", 1e9)])
            ]
        )
    )
    assert list(harness.decided) == batch_at(312, SNAPSHOTTED_LOG)
    (credential,) = batch_at(314, SNAPSHOTTED_LOG)
    assert isinstance(credential, UserScramCredentialRecord)
    harness.ask(
        AlterUserScramCredentialsRequest(
            upsertions=[
                ScramCredentialUpsertion(
                    credential.name, credential.mechanism, credential.iterations, bytes(credential.salt), b"any"
                )
            ]
        )
    )
    (ours,) = harness.decided
    assert isinstance(ours, UserScramCredentialRecord)
    assert (ours.salt, len(ours.stored_key), len(ours.server_key)) == (credential.salt, 32, 32)
