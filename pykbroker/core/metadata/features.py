"""Feature levels: what this broker can work with, what a new cluster begins with, and which records a level allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pykbroker.core.errors import StartError
from pykbroker.core.metadata.context import ELR_FEATURE, METADATA_FEATURE, Record
from wire.stored.metadata_brokers import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from wire.stored.metadata_topics import PartitionChangeRecord, PartitionRecord

SUPPORTED: Mapping[str, tuple[int, int]] = {
    METADATA_FEATURE: (7, 30),  # 3.3-IV3 to 4.3-IV0
    "kraft.version": (0, 1),
    "group.version": (0, 1),
    "transaction.version": (0, 2),
    ELR_FEATURE: (0, 1),
    "share.version": (0, 1),
    "streams.version": (0, 1),
}
"""Least and highest level of each feature that this broker can work with."""

NEW_CLUSTER: Mapping[str, int] = {
    METADATA_FEATURE: 30,
    ELR_FEATURE: 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
"""The levels of a cluster that Kafka 4.3 formats, in its order."""

DIRECTORIES_LEVEL = 17  # 3.7-IV2: directories of replicas
ELR_LEVEL = 23  # 4.0-IV1
CORDONED_LEVEL = 30  # 4.3-IV0


def check_levels(levels: Mapping[str, int]) -> None:
    """`StartError` where the cluster's data is at a level that this broker does not know."""
    for name, level in levels.items():
        least, most = SUPPORTED.get(name, (0, 0))
        if not least <= level <= most:
            raise StartError(f"the cluster's metadata is at {name} {level}, and this broker knows {least} to {most}: "
                             "start it with the version that wrote it")


def record_version(record: Record, metadata_level: int) -> int:
    """The version to write a record in: what readers at this level of metadata.version know."""
    choose = _VERSIONS.get(type(record))
    return 0 if choose is None else choose(record, metadata_level)


def _partition(_: Record, level: int) -> int:
    return (level >= DIRECTORIES_LEVEL) + (level >= ELR_LEVEL)


def _register_broker(_: Record, level: int) -> int:
    return 2 + (level >= DIRECTORIES_LEVEL) + (level >= CORDONED_LEVEL) if level > 7 else 1


def _broker_change(record: Record, _: int) -> int:
    """The least version that has the fields which change."""
    assert isinstance(record, BrokerRegistrationChangeRecord)
    if record.cordoned_log_dirs is not None:
        return 3
    return 2 if record.log_dirs else int(record.in_controlled_shutdown != 0)


_VERSIONS: dict[type, Callable[[Record, int], int]] = {
    PartitionRecord: _partition,
    PartitionChangeRecord: _partition,
    RegisterBrokerRecord: _register_broker,
    BrokerRegistrationChangeRecord: _broker_change,
}
