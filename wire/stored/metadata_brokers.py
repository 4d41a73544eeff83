"""Metadata records about brokers and controllers.

RegisterBrokerRecord has versions 0-4, all flexible:
- Version 1 adds `in_controlled_shutdown`.
- Version 2 adds `is_migrating_zk_broker`.
- Version 3 adds `log_dirs`.
- Version 4 adds `cordoned_log_dirs`.

BrokerRegistrationChangeRecord has versions 0-3, all flexible:
- Version 1 adds `in_controlled_shutdown`.
- Version 2 adds `log_dirs`.
- Version 3 adds `cordoned_log_dirs`.
"""

from typing import Annotated, ClassVar

from wire.declare import NIL, UUID, Bool, Int8, Int16, Int32, Int64, StoredPart, UInt16, V
from wire.stored.framing import FramedRecord


class BrokerEndpoint(StoredPart):
    name: str = ""
    host: str = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


class BrokerFeature(StoredPart):
    name: str = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class RegisterBrokerRecord(FramedRecord):
    """The registration of a broker, which is fenced until it has caught up with the metadata log."""

    record_type: ClassVar = 0
    versions: ClassVar = "0-4"

    broker_id: Int32 = 0
    is_migrating_zk_broker: Annotated[Bool, V("2+")] = False
    incarnation_id: UUID = NIL
    broker_epoch: Int64 = 0
    end_points: list[BrokerEndpoint] = []
    features: list[BrokerFeature] = []
    rack: Annotated[str | None, V(nullable="0+")] = ""
    fenced: Bool = True
    in_controlled_shutdown: Annotated[Bool, V("1+")] = False
    log_dirs: Annotated[list[UUID], V("3+", tag=0)] = []
    cordoned_log_dirs: Annotated[list[UUID] | None, V("4+", nullable="4+", tag=1)] = None


class UnregisterBrokerRecord(FramedRecord):
    """The removal of a broker from the cluster."""

    record_type: ClassVar = 1

    broker_id: Int32 = 0
    broker_epoch: Int64 = 0


class FenceBrokerRecord(FramedRecord):
    """The fencing of a broker. Newer brokers write BrokerRegistrationChangeRecord."""

    record_type: ClassVar = 7

    id: Int32 = 0
    epoch: Int64 = 0


class UnfenceBrokerRecord(FramedRecord):
    """The unfencing of a broker. Newer brokers write BrokerRegistrationChangeRecord."""

    record_type: ClassVar = 8

    id: Int32 = 0
    epoch: Int64 = 0


class BrokerRegistrationChangeRecord(FramedRecord):
    """A change of a broker.

    `fenced` is 1 to fence and -1 to unfence, `in_controlled_shutdown` is 1 to begin a shutdown. A field with 0 is
    unchanged.
    """

    record_type: ClassVar = 17
    versions: ClassVar = "0-3"

    broker_id: Int32 = 0
    broker_epoch: Int64 = 0
    fenced: Annotated[Int8, V(tag=0)] = 0
    in_controlled_shutdown: Annotated[Int8, V("1+", tag=1)] = 0
    log_dirs: Annotated[list[UUID], V("2+", tag=2)] = []
    cordoned_log_dirs: Annotated[list[UUID] | None, V("3+", nullable="3+", tag=3)] = None


class ControllerEndpoint(StoredPart):
    name: str = ""
    host: str = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


class ControllerFeature(StoredPart):
    name: str = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class RegisterControllerRecord(FramedRecord):
    """The registration of a controller, with its listeners and features."""

    record_type: ClassVar = 27

    controller_id: Int32 = 0
    incarnation_id: UUID = NIL
    zk_migration_ready: Bool = False
    end_points: list[ControllerEndpoint] = []
    features: list[ControllerFeature] = []
