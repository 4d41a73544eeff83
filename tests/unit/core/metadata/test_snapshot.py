"""Tests of snapshots: a snapshot and the records after it give the same image as the whole log."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.metadata.machine import ControllerMachine
from pykbroker.core.metadata.record import Record, UnknownRecord, read_record, write_record
from pykbroker.core.metadata.replay import REPLAY
from pykbroker.core.metadata.snapshot import image_of, snapshot_records
from tests.unit.core.metadata.harness import NOW_MS, Configs, ControllerHarness, topic
from wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from wire.messages.create_topics import CreateTopicsRequest
from wire.messages.delete_topics import DeleteTopicsRequest
from wire.stored.metadata import METADATA_RECORDS
from wire.stored.metadata_brokers import BrokerRegistrationChangeRecord, UnregisterBrokerRecord
from wire.stored.metadata_marks import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord, NoOpRecord
from wire.stored.metadata_security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from wire.stored.metadata_settings import ClientQuotaRecord, ConfigRecord, EntityData, FeatureLevelRecord

LEVEL = 30
NAMES = st.sampled_from(("a", "b", "c.d"))
IDS = st.integers(1, 3)
OLD_LEVELS = (7, 8, 14, 17, 23, 29, 30)


def quota(user: str | None, remove: bool) -> ClientQuotaRecord:
    entity = [EntityData(entity_type="user", entity_name=user), EntityData(entity_type="client-id", entity_name="c")]
    return ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=1e6, remove=remove)


RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.builds(
        ConfigRecord,
        resource_type=st.sampled_from((4, 16, 32)),
        resource_name=NAMES,
        name=NAMES,
        value=st.none() | NAMES,
    ),
    st.builds(lambda number: AccessControlEntryRecord(id=bytes([number]) * 16, principal="User:a"), IDS),
    st.builds(lambda number: RemoveAccessControlEntryRecord(id=bytes([number]) * 16), IDS),
    st.builds(UserScramCredentialRecord, name=NAMES, mechanism=st.integers(1, 2), iterations=IDS),
    st.builds(RemoveUserScramCredentialRecord, name=NAMES, mechanism=st.integers(1, 2)),
    st.builds(DelegationTokenRecord, token_id=NAMES, owner=NAMES, renewers=st.lists(NAMES, max_size=2)),
    st.builds(RemoveDelegationTokenRecord, token_id=NAMES),
    st.builds(quota, st.none() | NAMES, st.booleans()),
    st.builds(
        FeatureLevelRecord, name=st.sampled_from(("group.version", "new.version")), feature_level=st.integers(0, 3)
    ),
    st.builds(lambda rest: UnknownRecord(bytes.fromhex("01ff0100") + rest), st.binary(max_size=3)),
)


class ClusterChanges:
    """Random changes of a cluster with two brokers."""

    def __init__(self, data: st.DataObject) -> None:
        self.draw, self.harness = data.draw, ControllerHarness().open(1, 2)
        self.choices = (
            self.write,
            self.write,
            self.create,
            self.delete,
            self.grow,
            self.allocate,
            self.beat,
            self.register,
            self.leave,
        )

    def happen(self) -> None:
        with suppress(ApiError):
            self.draw(st.sampled_from(self.choices))()

    def write(self) -> None:
        self.harness.write(self.draw(RECORDS))

    def create(self) -> None:
        configs = self.draw(
            st.dictionaries(st.sampled_from(("cleanup_policy", "min_insync_replicas")), st.sampled_from(("1", "2")))
        )
        self.harness.ask(
            CreateTopicsRequest(
                topics=[topic(self.draw(NAMES), self.draw(IDS), self.draw(st.integers(1, 2)), **configs)]
            )
        )

    def delete(self) -> None:
        self.harness.ask(DeleteTopicsRequest(topic_names=[self.draw(NAMES)]))

    def grow(self) -> None:
        self.harness.ask(
            CreatePartitionsRequest(
                topics=[
                    CreatePartitionsTopic(name=self.draw(NAMES), count=self.draw(st.integers(2, 5)), assignments=None)
                ]
            )
        )

    def allocate(self) -> None:
        broker = self._broker()
        if broker is not None:
            self.harness.ask(AllocateProducerIdsRequest(broker_id=broker.id, broker_epoch=broker.epoch))

    def beat(self) -> None:
        broker = self._broker()
        if broker is not None:
            wish = self.draw(st.sampled_from(("want_fence", "want_shut_down", None)))
            self.harness.beat(broker.id, broker.epoch, **({wish: True} if wish else {}))

    def register(self) -> None:
        broker = self._broker()
        if broker is None or broker.fenced:
            number = self.draw(st.integers(1, 3)) if broker is None else broker.id
            self.harness.register(number, incarnation=self.draw(IDS))

    def leave(self) -> None:
        broker = self._broker()
        if broker is not None and self.draw(st.booleans()):
            self.harness.write(
                BrokerRegistrationChangeRecord(
                    broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=[b"d" * 16]
                )
            )
        elif broker is not None and broker.fenced:
            self.harness.write(UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch))

    def _broker(self) -> Any:
        return self.harness.machine._draft.brokers.get(self.draw(st.integers(1, 3)))


def stored(image: MetadataImage, level: int = LEVEL) -> list[bytes]:
    return [write_record(record, level) for record in snapshot_records(image)]


def loaded(values: list[bytes], image: MetadataImage) -> MetadataImage:
    return image_of(map(read_record, values), image.offset, image.epoch, image.time_ms)


@given(st.data())
def test_a_snapshot_and_the_records_after_it_equal_the_whole_log(data: st.DataObject) -> None:
    happenings = ClusterChanges(data)
    begun = len(happenings.harness.log)
    for _ in range(data.draw(st.integers(1, 12))):
        happenings.happen()
    harness = happenings.harness
    cut = data.draw(st.integers(begun, len(harness.log)))
    before = ControllerMachine(harness.settings, Configs(), random.Random(0))
    for entry in harness.log[:cut]:
        before.replay(entry)
    image = before.freeze(1, NOW_MS).image
    values = stored(image)
    assert loaded(values, image) == image
    assert stored(loaded(values, image)) == values
    after = ControllerMachine(harness.settings, Configs(), random.Random(0), loaded(values, image))
    for entry in harness.log[cut:]:
        after.replay(entry)
    assert after.freeze(1, NOW_MS).image == harness.replayed()


@pytest.mark.parametrize("level", OLD_LEVELS)
def test_a_snapshot_can_be_written_at_any_metadata_version(level: int) -> None:
    harness = ControllerHarness().open(1)
    harness.write(FeatureLevelRecord(name="metadata.version", feature_level=level))
    harness.ask(CreateTopicsRequest(topics=[topic("a", 2, cleanup_policy="compact")]))
    image = harness.freeze().image
    read = loaded(stored(image, level), image)
    assert stored(read, level) == stored(image, level)
    assert (read.topics.by_name["a"].partitions[1].isr, read.configs) == ((1,), image.configs)


def test_every_record_type_can_be_replayed() -> None:
    marks = {BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord, NoOpRecord}
    assert set(METADATA_RECORDS.values()) | {UnknownRecord} == set(REPLAY) | marks


def test_stored_records_are_decoded_to_their_class() -> None:
    harness = ControllerHarness().open(1)
    entry = DelegationTokenRecord(token_id="a")
    harness.write(entry, quota("u", remove=False), quota("u", remove=True))
    records = harness.freeze().image.records
    assert (records.of(DelegationTokenRecord), records.of(ClientQuotaRecord)) == ([entry], [])


def test_records_of_an_aborted_transaction_are_in_no_snapshot() -> None:
    harness = ControllerHarness().open(1)
    unknown = UnknownRecord(bytes.fromhex("01ff0100"))
    harness.write(
        BeginTransactionRecord(),
        unknown,
        AbortTransactionRecord(),
        BeginTransactionRecord(),
        unknown,
        EndTransactionRecord(),
    )
    assert harness.freeze().image.records.unknown == (unknown.value,)
