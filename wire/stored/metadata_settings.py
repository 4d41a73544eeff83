"""Metadata records about configs, quotas, features and producer ids."""

from typing import Annotated, ClassVar

from wire.declare import Bool, Float64, Int8, Int16, Int32, Int64, StoredPart, V
from wire.stored.framing import FramedRecord


class ConfigRecord(FramedRecord):
    """A new config of a topic, broker, group or client-metrics resource. A null value removes the config."""

    record_type: ClassVar = 4

    resource_type: Int8 = 0
    resource_name: str = ""
    name: str = ""
    value: Annotated[str | None, V(nullable="0+", sensitive=True)] = ""


class EntityData(StoredPart):
    entity_type: str = ""
    entity_name: Annotated[str | None, V(nullable="0+")] = ""


class ClientQuotaRecord(FramedRecord):
    """A new quota of an entity, or its removal."""

    record_type: ClassVar = 14

    entity: list[EntityData] = []
    key: str = ""
    value: Float64 = 0.0
    remove: Bool = False


class FeatureLevelRecord(FramedRecord):
    """A new finalized level of a feature. Level 0 removes the feature."""

    record_type: ClassVar = 12

    name: str = ""
    feature_level: Int16 = 0


class ProducerIdsRecord(FramedRecord):
    """The allocation of a block of producer ids. All ids below `next_producer_id` are in use."""

    record_type: ClassVar = 15

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    next_producer_id: Int64 = 0


class ZkMigrationStateRecord(FramedRecord):
    """The state of the migration from ZooKeeper. It is always 0 in a cluster that was created with KRaft."""

    record_type: ClassVar = 21

    zk_migration_state: Int8 = 0
