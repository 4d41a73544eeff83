"""The names of kafka-python's top level that the drop-in has, and those that it refuses."""

from __future__ import annotations

import importlib
from enum import IntEnum

import kafka
import pytest

from pykbroker.kafka import IsolationLevel, OffsetSpec, TopicPartitionReplica


def test_the_import_of_the_admin_client_says_what_to_do() -> None:
    with pytest.raises(ImportError, match="not part of pykbroker.kafka: keep importing it from kafka"):
        from pykbroker.kafka import KafkaAdminClient  # noqa: F401 - the import is the test
    with pytest.raises(AttributeError, match="module 'pykbroker.kafka' has no attribute 'KafkaAdmin'"):
        importlib.import_module("pykbroker.kafka").KafkaAdmin  # noqa: B018 - the access is the test


@pytest.mark.parametrize(("ours", "theirs"), [(IsolationLevel, kafka.IsolationLevel), (OffsetSpec, kafka.OffsetSpec)])
def test_enumerations_have_the_numbers_and_names_of_kafka_python(ours: type[IntEnum], theirs: type[IntEnum]) -> None:
    assert {each.name: each.value for each in ours} == {each.name: each.value for each in theirs}


def test_a_named_value_is_found_by_number_and_by_name() -> None:
    assert IsolationLevel.build_from("read-committed") is IsolationLevel.READ_COMMITTED
    assert OffsetSpec.build_from(-2) is OffsetSpec.EARLIEST
    assert OffsetSpec.value_for("latest") == OffsetSpec.value_for(OffsetSpec.LATEST) == -1
    with pytest.raises(ValueError, match="Unrecognized OffsetSpec: newest. Pass one of LATEST, EARLIEST"):
        OffsetSpec.build_from("newest")


def test_a_replica_of_a_partition_is_that_of_kafka_python() -> None:
    assert TopicPartitionReplica("topic", 1, broker_id=2) == kafka.TopicPartitionReplica("topic", 1, 2)
