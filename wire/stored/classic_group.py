"""Records of `__consumer_offsets` about classic groups.

GroupMetadataValue has versions 0-4, flexible from version 4:
- Version 1 adds `rebalance_timeout`.
- Version 2 adds `current_state_timestamp`.
- Version 3 adds `group_instance_id`.
- Version 4 is flexible.
"""

from typing import Annotated, ClassVar

from wire.declare import Int32, Int64, StoredPart, V
from wire.stored.framing import CoordinatorKey, CoordinatorValue


class GroupMetadataKey(CoordinatorKey):
    """The key of a record about a classic group."""

    record_type: ClassVar = 2

    group: Annotated[str, V("0")] = ""


class MemberMetadata(StoredPart):
    member_id: str = ""
    group_instance_id: Annotated[str | None, V("3+", nullable="3+", ignorable=True)] = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: Annotated[Int32, V("1+", ignorable=True)] = -1
    session_timeout: Int32 = 0
    subscription: bytes = b""
    assignment: bytes = b""


class GroupMetadataValue(CoordinatorValue):
    """A record value: the generation of a classic group, with the assignment of each member."""

    record_type: ClassVar = 2
    versions: ClassVar = "0-4"
    flexible: ClassVar = "4+"

    protocol_type: str = ""
    generation: Int32 = 0
    protocol: Annotated[str | None, V(nullable="0+")] = ""
    leader: Annotated[str | None, V(nullable="0+")] = ""
    current_state_timestamp: Annotated[Int64, V("2+", ignorable=True)] = -1
    members: list[MemberMetadata] = []
