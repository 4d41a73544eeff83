"""Tests of metadata images, which are immutable, and of the deltas between them."""

from __future__ import annotations

from copy import deepcopy

import pytest

from pykbroker.core.ids import id_bytes, id_text, new_id
from pykbroker.core.metadata.image import EMPTY
from pykbroker.core.metadata.replay import DamagedMetadata
from pykbroker.core.metadata.shared_table import SharedTable
from tests.unit.core.metadata.harness import ControllerHarness, topic
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


def create(harness: ControllerHarness, *names: str) -> None:
    harness.ask(CreateTopicsRequest(topics=[topic(name) for name in names]))


def delete(harness: ControllerHarness, *names: str) -> None:
    harness.ask(DeleteTopicsRequest(topic_names=list(names)))


def test_a_published_image_does_not_change() -> None:
    harness = ControllerHarness().open(1)
    create(harness, "a", "b")
    before = harness.freeze().image
    kept = deepcopy(before)
    harness.ask(CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=3, assignments=None)]))
    delete(harness, "b")
    create(harness, "c")
    harness.write(ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value="1"))
    harness.write(FeatureLevelRecord(name="group.version", feature_level=0))
    harness.beat(1, before.cluster.brokers[1].epoch, want_fence=True)
    after = harness.freeze().image
    assert before == kept
    assert sorted(after.topics.by_name) == ["a", "c"]
    assert len(after.topics.by_name["a"].partitions) == 3
    assert after.cluster.brokers[1].fenced


def test_two_images_share_their_unchanged_tables() -> None:
    harness = ControllerHarness().open(1)
    create(harness, "a", "b")
    first = harness.freeze().image
    create(harness, "c")
    second = harness.freeze().image
    assert second.cluster is first.cluster
    assert second.configs is first.configs
    assert second.features is first.features
    assert second.topics.by_name["a"] is first.topics.by_name["a"]
    assert harness.freeze().image.topics is second.topics


def test_a_delta_lists_the_changes_between_two_images() -> None:
    harness = ControllerHarness().open(1)
    assert harness.freeze().previous is EMPTY
    create(harness, "a", "b")
    harness.write(ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value="1"))
    delta = harness.freeze()
    names = delta.image.topics.by_name
    assert delta.topics_changed == {names["a"].id, names["b"].id}
    assert delta.configs_changed == {(2, "a")}
    assert not delta.brokers_changed
    delete(harness, "a")
    create(harness, "fleeting")
    delete(harness, "fleeting")
    delta = harness.freeze()
    assert delta.topics_deleted == (names["a"],)
    assert not delta.topics_changed
    assert delta.image.configs.topic("a") == {}


def test_a_recreated_topic_is_another_topic() -> None:
    harness = ControllerHarness().open(1)
    create(harness, "a")
    old = harness.freeze().image.topics.by_name["a"]
    delete(harness, "a")
    create(harness, "a")
    delta = harness.freeze()
    assert delta.topics_deleted == (old,)
    assert delta.topics_changed == {delta.image.topics.by_name["a"].id} != {old.id}


def test_two_consecutive_deltas_can_be_merged() -> None:
    harness = ControllerHarness().open(1)
    harness.freeze()
    create(harness, "a", "b", "c")
    first = harness.freeze()
    delete(harness, "a")
    create(harness, "d")
    delete(harness, "d")
    second = harness.freeze()
    delete(harness, "c")
    third = harness.freeze()
    both = first.then(second).then(third)
    assert both.topics_changed == {both.image.topics.by_name["b"].id}
    assert both.topics_deleted == ()
    delete(harness, "b")
    again = second.then(third).then(harness.freeze())
    assert {topic.name for topic in again.topics_deleted} == {"a", "b", "c"}


def test_topics_and_partitions_are_found_by_name_and_by_id() -> None:
    harness = ControllerHarness().open(1)
    create(harness, "a")
    image = harness.freeze().image
    assert image.topics.partition("a", 0) is image.topics.by_name["a"].partitions[0]
    assert image.topics.partition("a", 1) is None
    assert image.topics.partition("b", 0) is None
    broker = image.cluster.brokers[1]
    assert broker.endpoint("PLAINTEXT") == broker.endpoints[0]
    assert broker.endpoint("SSL") is None
    assert [active.id for active in image.cluster.active()] == [1]
    assert image.configs.broker(1) == {}
    assert image.features.level("no.such") == 0


def test_the_records_of_a_metadata_transaction_are_applied_at_its_end() -> None:
    harness = ControllerHarness()
    config = ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1")
    harness.write(BeginTransactionRecord(name="x"), config)
    assert harness.machine.in_transaction
    assert harness.freeze().image.configs.cluster_default == {}
    harness.write(AbortTransactionRecord(), EndTransactionRecord())
    assert harness.freeze().image.configs.cluster_default == {}
    harness.write(BeginTransactionRecord(name="x"), config, EndTransactionRecord())
    assert harness.freeze().image.configs.cluster_default == {"min.insync.replicas": "1"}
    assert not harness.machine.in_transaction


def test_a_config_set_to_null_is_removed() -> None:
    harness = ControllerHarness().open(1)
    create(harness, "a")
    harness.write(ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value="1"))
    harness.write(ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value=None))
    assert (2, "a") not in harness.freeze().image.configs.resources


@pytest.mark.parametrize("name", ["a", ""])
def test_the_elr_of_one_topic_or_of_all_topics_can_be_cleared(name: str) -> None:
    harness = ControllerHarness().open(1)
    create(harness, "a")
    epoch = harness.freeze().image.cluster.brokers[1].epoch
    harness.beat(1, epoch, want_shut_down=True)
    assert harness.freeze().image.topics.by_name["a"].partitions[0].elr == (1,)
    harness.write(ClearElrRecord(topic_name=name))
    partition = harness.freeze().image.topics.by_name["a"].partitions[0]
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
def test_a_record_about_an_unknown_topic_or_broker_is_a_corrupt_log(record: PartitionRecord) -> None:
    harness = ControllerHarness().open(1)
    with pytest.raises(DamagedMetadata, match=f"at offset {harness.machine.next_offset}"):
        harness.write(record)


def test_the_fencing_records_of_older_controllers_are_applied() -> None:
    harness = ControllerHarness().open(1)
    epoch = harness.freeze().image.cluster.brokers[1].epoch
    harness.write(FenceBrokerRecord(id=1, epoch=epoch))
    assert harness.freeze().image.cluster.brokers[1].fenced
    harness.write(UnfenceBrokerRecord(id=1, epoch=epoch))
    assert not harness.freeze().image.cluster.brokers[1].fenced


def test_an_unregistered_broker_is_removed() -> None:
    harness = ControllerHarness().open(1)
    harness.write(UnregisterBrokerRecord(broker_id=1, broker_epoch=harness.freeze().image.cluster.brokers[1].epoch))
    delta = harness.freeze()
    assert not delta.image.cluster.brokers
    assert delta.brokers_changed == {1}


def test_the_first_change_copies_a_shared_table() -> None:
    table = SharedTable({1: "a"})
    first = table.share()
    rows = table.rows()
    rows[2] = "b"
    assert table.rows() is rows
    assert (dict(table), table.changed, 2 in table, len(table)) == ({1: "a", 2: "b"}, True, True, 2)
    second = table.share()
    table.rows()[3] = "c"
    assert (first, second, dict(table)) == ({1: "a"}, {1: "a", 2: "b"}, {1: "a", 2: "b", 3: "c"})


class GivenRandomness:
    """A source of randomness that returns the given bytes."""

    def __init__(self, *drawn: bytes) -> None:
        self.drawn = list(drawn)

    def randbytes(self, n: int, /) -> bytes:
        return self.drawn.pop(0)


def test_a_new_id_is_not_reserved_and_does_not_begin_with_a_hyphen() -> None:
    assert new_id(GivenRandomness(b"\xf8" + bytes(15), bytes(16))) == bytes(6) + b"\x40\x00\x80" + bytes(7)


@pytest.mark.parametrize("text", ["", "A" * 21, "A" * 23, "A" * 21 + "B", "A" * 21 + "=", "!" * 22, "A" * 21 + "/"])
def test_invalid_id_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an id"):
        id_bytes(text)


def test_ids_have_the_same_text_as_in_kafka() -> None:
    assert id_text(bytes(15) + b"\x01") == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert id_bytes("eFY3g7xCOlPBlIy0q0wRtw").hex() == "78563783bc423a53c1948cb4ab4c11b7"
