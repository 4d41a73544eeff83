"""Records of `__consumer_offsets` about committed offsets.

OffsetCommitValue has versions 0-4, flexible from version 4:
- Version 1 adds `expire_timestamp`.
- Version 2 removes `expire_timestamp`.
- Version 3 adds `leader_epoch`.
- Version 4 is flexible and adds `topic_id`.
"""

from typing import Annotated, ClassVar

from wire.declare import NIL, UUID, Int32, Int64, V
from wire.stored.framing import CoordinatorKey, CoordinatorValue


class LegacyOffsetCommitKey(CoordinatorKey):
    """The OffsetCommitKey of brokers before 0.9."""

    record_type: ClassVar = 0

    group: Annotated[str, V("0")] = ""
    topic: Annotated[str, V("0")] = ""
    partition: Annotated[Int32, V("0")] = 0


class LegacyOffsetCommitValue(CoordinatorValue):
    """The OffsetCommitValue of brokers before 0.9."""

    record_type: ClassVar = 0
    flexible: ClassVar = "none"

    offset: Annotated[Int64, V("0")] = 0
    metadata: Annotated[str, V("0")] = ""
    commit_timestamp: Annotated[Int64, V("0")] = 0


class OffsetCommitKey(CoordinatorKey):
    """The key of a record about a partition whose offset a group has committed."""

    record_type: ClassVar = 1

    group: Annotated[str, V("0")] = ""
    topic: Annotated[str, V("0")] = ""
    partition: Annotated[Int32, V("0")] = 0


class OffsetCommitValue(CoordinatorValue):
    """A record value: the committed offset."""

    record_type: ClassVar = 1
    versions: ClassVar = "0-4"
    flexible: ClassVar = "4+"

    offset: Int64 = 0
    leader_epoch: Annotated[Int32, V("3+", ignorable=True)] = -1
    metadata: str = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Annotated[Int64, V("1", ignorable=True)] = -1
    topic_id: Annotated[UUID, V("4+", tag=0, ignorable=True)] = NIL
