"""Payloads of classic consumer groups inside JoinGroup and SyncGroup.

The payloads are limited like requests, because clients write them. ConsumerProtocolSubscription has versions 0-3, never
flexible:
- Version 1 adds `owned_partitions`.
- Version 2 adds `generation_id`.
- Version 3 adds `rack_id`.
"""

from typing import Annotated, ClassVar

from wire.declare import REQUEST_ELEMENTS_MAX, Int32, Stored, StoredPart, V


class ConsumerProtocolSubscriptionTopicPartition(StoredPart):
    topic: Annotated[str, V("1+")] = ""
    partitions: Annotated[list[Int32], V("1+")] = []


class ConsumerProtocolSubscription(Stored):
    """The subscription that a member of a classic consumer group sends in JoinGroup."""

    versions: ClassVar = "0-3"
    flexible: ClassVar = "none"
    elements_max: ClassVar = REQUEST_ELEMENTS_MAX

    topics: list[str] = []
    user_data: Annotated[bytes | None, V(nullable="0+")] = None
    owned_partitions: Annotated[list[ConsumerProtocolSubscriptionTopicPartition], V("1+", ignorable=True)] = []
    generation_id: Annotated[Int32, V("2+", ignorable=True)] = -1
    rack_id: Annotated[str | None, V("3+", nullable="3+", ignorable=True)] = None


class ConsumerProtocolAssignmentTopicPartition(StoredPart):
    topic: str = ""
    partitions: list[Int32] = []


class ConsumerProtocolAssignment(Stored):
    """The assignment of a member that the leader of a classic consumer group sends in SyncGroup."""

    versions: ClassVar = "0-3"
    flexible: ClassVar = "none"
    elements_max: ClassVar = REQUEST_ELEMENTS_MAX

    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition] = []
    user_data: Annotated[bytes | None, V(nullable="0+")] = None
