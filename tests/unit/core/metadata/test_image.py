"""Images and the deltas between them: immutable, shared, and cheap to create."""

from __future__ import annotations

from copy import deepcopy

import pytest

from pykbroker.core.metadata.ids import id_bytes, id_text, new_id
from pykbroker.core.metadata.image import EMPTY
from pykbroker.core.metadata.replay import DamagedMetadata
from pykbroker.core.metadata.shared_table import SharedTable
from tests.unit.core.metadata.room import Room, topic
from wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from wire.messages.create_topics import CreateTopicsRequest
from wire.messages.delete_topics import DeleteTopicsRequest
from wire.stored.metadata_brokers import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from wire.stored.metadata_marks import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from wire.stored.metadata_settings import ConfigRecord, FeatureLevelRecord
from wire.stored.metadata_topics import ClearElrRecord, PartitionChangeRecord, PartitionRecord, RemoveTopicRecord


def create(room: Room, *names: str) -> None:
    room.ask(CreateTopicsRequest(topics=[topic(name) for name in names]))


def delete(room: Room, *names: str) -> None:
    room.ask(DeleteTopicsRequest(topic_names=list(names)))


def test_a_published_image_does_not_change() -> None:
    room = Room().open(1)
    create(room, "a", "b")
    before = room.freeze().image
    kept = deepcopy(before)
    room.ask(CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=3, assignments=None)]))
    delete(room, "b")
    create(room, "c")
    room.write(ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value="1"))
    room.write(FeatureLevelRecord(name="group.version", feature_level=0))
    room.beat(1, before.cluster.brokers[1].epoch, want_fence=True)
    after = room.freeze().image
    assert before == kept
    assert sorted(after.topics.by_name) == ["a", "c"]
    assert len(after.topics.by_name["a"].partitions) == 3
    assert after.cluster.brokers[1].fenced


def test_unchanged_tables_are_shared() -> None:
    room = Room().open(1)
    create(room, "a", "b")
    first = room.freeze().image
    create(room, "c")
    second = room.freeze().image
    assert second.cluster is first.cluster
    assert second.configs is first.configs
    assert second.features is first.features
    assert second.topics.by_name["a"] is first.topics.by_name["a"]
    assert room.freeze().image.topics is second.topics


def test_a_delta_names_the_changes() -> None:
    room = Room().open(1)
    assert room.freeze().previous is EMPTY
    create(room, "a", "b")
    room.write(ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value="1"))
    delta = room.freeze()
    names = delta.image.topics.by_name
    assert delta.topics_changed == {names["a"].id, names["b"].id}
    assert delta.configs_changed == {(2, "a")}
    assert not delta.brokers_changed
    delete(room, "a")
    create(room, "fleeting")
    delete(room, "fleeting")
    delta = room.freeze()
    assert delta.topics_deleted == (names["a"],)
    assert not delta.topics_changed
    assert delta.image.configs.topic("a") == {}


def test_a_topic_of_the_same_name_is_another_topic() -> None:
    room = Room().open(1)
    create(room, "a")
    old = room.freeze().image.topics.by_name["a"]
    delete(room, "a")
    create(room, "a")
    delta = room.freeze()
    assert delta.topics_deleted == (old,)
    assert delta.topics_changed == {delta.image.topics.by_name["a"].id} != {old.id}


def test_consecutive_deltas_can_be_merged() -> None:
    room = Room().open(1)
    room.freeze()
    create(room, "a", "b", "c")
    first = room.freeze()
    delete(room, "a")
    create(room, "d")
    delete(room, "d")
    second = room.freeze()
    delete(room, "c")
    third = room.freeze()
    both = first.then(second).then(third)
    assert both.topics_changed == {both.image.topics.by_name["b"].id}
    assert both.topics_deleted == ()
    delete(room, "b")
    again = second.then(third).then(room.freeze())
    assert {topic.name for topic in again.topics_deleted} == {"a", "b", "c"}


def test_lookups_by_name_and_by_id() -> None:
    room = Room().open(1)
    create(room, "a")
    image = room.freeze().image
    assert image.topics.partition("a", 0) is image.topics.by_name["a"].partitions[0]
    assert image.topics.partition("a", 1) is None
    assert image.topics.partition("b", 0) is None
    broker = image.cluster.brokers[1]
    assert broker.endpoint("PLAINTEXT") == broker.endpoints[0]
    assert broker.endpoint("SSL") is None
    assert [active.id for active in image.cluster.active()] == [1]
    assert image.configs.broker(1) == {}
    assert image.features.level("no.such") == 0


def test_a_metadata_transaction_is_applied_at_its_end() -> None:
    room = Room()
    config = ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1")
    room.write(BeginTransactionRecord(name="x"), config)
    assert room.machine.in_transaction
    assert room.freeze().image.configs.cluster_default == {}
    room.write(AbortTransactionRecord(), EndTransactionRecord())
    assert room.freeze().image.configs.cluster_default == {}
    room.write(BeginTransactionRecord(name="x"), config, EndTransactionRecord())
    assert room.freeze().image.configs.cluster_default == {"min.insync.replicas": "1"}
    assert not room.machine.in_transaction


def test_a_config_set_to_null_is_removed() -> None:
    room = Room().open(1)
    create(room, "a")
    room.write(ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value="1"))
    room.write(ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value=None))
    assert (2, "a") not in room.freeze().image.configs.resources


@pytest.mark.parametrize("name", ["a", ""])
def test_clearing_the_eligible_leaders_of_one_topic_or_all(name: str) -> None:
    room = Room().open(1)
    create(room, "a")
    epoch = room.freeze().image.cluster.brokers[1].epoch
    room.beat(1, epoch, want_shut_down=True)
    assert room.freeze().image.topics.by_name["a"].partitions[0].elr == (1,)
    room.write(ClearElrRecord(topic_name=name))
    partition = room.freeze().image.topics.by_name["a"].partitions[0]
    assert (partition.elr, partition.last_known_elr) == ((), ())


@pytest.mark.parametrize(
    "record",
    [
        RemoveTopicRecord(topic_id=b"x" * 16),
        PartitionRecord(topic_id=b"x" * 16),
        PartitionChangeRecord(topic_id=b"x" * 16),
        UnregisterBrokerRecord(broker_id=9),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=0, fenced=1),
    ],
)
def test_a_record_about_an_unknown_topic_or_broker_is_damage(record: PartitionRecord) -> None:
    room = Room().open(1)
    with pytest.raises(DamagedMetadata, match=f"at offset {room.machine.next_offset}"):
        room.write(record)


def test_the_fencing_records_of_older_controllers() -> None:
    room = Room().open(1)
    epoch = room.freeze().image.cluster.brokers[1].epoch
    room.write(FenceBrokerRecord(id=1, epoch=epoch))
    assert room.freeze().image.cluster.brokers[1].fenced
    room.write(UnfenceBrokerRecord(id=1, epoch=epoch))
    assert not room.freeze().image.cluster.brokers[1].fenced


def test_an_unregistered_broker_is_removed() -> None:
    room = Room().open(1)
    room.write(UnregisterBrokerRecord(broker_id=1, broker_epoch=room.freeze().image.cluster.brokers[1].epoch))
    delta = room.freeze()
    assert not delta.image.cluster.brokers
    assert delta.brokers_changed == {1}


def test_a_shared_table_is_copied_once() -> None:
    table = SharedTable({1: "a"})
    first = table.share()
    rows = table.rows()
    rows[2] = "b"
    assert table.rows() is rows
    assert (dict(table), table.changed, 2 in table, len(table)) == ({1: "a", 2: "b"}, True, True, 2)
    second = table.share()
    table.rows()[3] = "c"
    assert (first, second, dict(table)) == ({1: "a"}, {1: "a", 2: "b"}, {1: "a", 2: "b", 3: "c"})


class Bytes:
    """Randomness with given bytes."""

    def __init__(self, *drawn: bytes) -> None:
        self.drawn = list(drawn)

    def randbytes(self, n: int, /) -> bytes:
        return self.drawn.pop(0)


def test_an_id_is_never_reserved_and_never_looks_like_an_option() -> None:
    assert new_id(Bytes(b"\xf8" + bytes(15), bytes(16))) == bytes(6) + b"\x40\x00\x80" + bytes(7)


@pytest.mark.parametrize("text", ["", "A" * 21, "A" * 23, "A" * 21 + "B", "A" * 21 + "=", "!" * 22, "A" * 21 + "/"])
def test_invalid_ids_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an id"):
        id_bytes(text)


def test_ids_are_written_as_kafka_writes_them() -> None:
    assert id_text(bytes(15) + b"\x01") == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert id_bytes("eFY3g7xCOlPBlIy0q0wRtw").hex() == "78563783bc423a53c1948cb4ab4c11b7"
