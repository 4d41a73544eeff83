"""The modules and names of kafka-python that the drop-in has."""

from __future__ import annotations

import importlib
from enum import IntEnum

import kafka
import pytest

from pykbroker.kafka import IsolationLevel, OffsetSpec, TopicPartitionReplica, __version__

MODULES = (
    "admin",
    "consumer.group",
    "consumer.subscription_state",
    "coordinator.assignors.abstract",
    "coordinator.assignors.cooperative_sticky",
    "coordinator.assignors.range",
    "coordinator.assignors.roundrobin",
    "coordinator.assignors.sticky.sticky_assignor",
    "errors",
    "partitioner",
    "partitioner.abc",
    "partitioner.default",
    "partitioner.sticky",
    "serializer",
    "structs",
    "version",
)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_has_the_names_of_kafka_pythons(name: str) -> None:
    ours, theirs = (importlib.import_module(f"{package}.{name}") for package in ("pykbroker.kafka", "kafka"))
    own = getattr(theirs, "__all__", None) or [
        each for each, found in vars(theirs).items() if getattr(found, "__module__", None) == theirs.__name__
    ]
    lacking = {each for each in own if isinstance(getattr(theirs, each), type) and not hasattr(ours, each)}
    assert lacking == LACKING.get(name, set())


LACKING = {
    "consumer.subscription_state": {"SubscriptionState", "SubscriptionType", "TopicPartitionState"},
    "coordinator.assignors.abstract": {"RebalanceProtocol"},
    "coordinator.assignors.sticky.sticky_assignor": {
        "ConsumerGenerationPair",
        "StickyAssignmentExecutor",
        "StickyAssignorMemberMetadataV1",
    },
    "errors": {"NoError"},
    "structs": {"MemberState"},
}
"""The classes that programs have no use for."""


def test_the_version_is_that_of_kafka_python() -> None:
    assert __version__ == kafka.__version__


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
