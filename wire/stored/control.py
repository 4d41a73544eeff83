"""Keys and values of control records.

LeaderChangeMessage has versions 0-1, all flexible:
- Version 1 adds `voter_directory_id`.
"""

from typing import Annotated, ClassVar

from msgspec import field

from wire.declare import NIL, UUID, Int16, Int32, Int64, Stored, StoredPart, UInt16, V


class ControlRecordTypeSchema(Stored):
    """The rest of the key of a control record, after its version."""

    versions: ClassVar = "0"
    flexible: ClassVar = "none"

    type: Int16 = 0


class EndTxnMarker(Stored):
    """The value of an ABORT or COMMIT marker."""

    versions: ClassVar = "0"
    flexible: ClassVar = "none"

    coordinator_epoch: Int32 = 0


class LeaderChangeMessageVoter(StoredPart):
    voter_id: Int32 = 0
    voter_directory_id: Annotated[UUID, V("1+")] = NIL


class LeaderChangeMessage(Stored):
    """The value of LEADER_CHANGE: the first record of a KRaft leader."""

    versions: ClassVar = "0-1"
    flexible: ClassVar = "0+"

    version: Int16 = 0
    leader_id: Int32 = 0
    voters: list[LeaderChangeMessageVoter] = []
    granting_voters: list[LeaderChangeMessageVoter] = []


class SnapshotHeaderRecord(Stored):
    """The value of SNAPSHOT_HEADER: the first record of a snapshot."""

    versions: ClassVar = "0"
    flexible: ClassVar = "0+"

    version: Int16 = 0
    last_contained_log_timestamp: Int64 = 0


class SnapshotFooterRecord(Stored):
    """The value of SNAPSHOT_FOOTER: the last record of a snapshot."""

    versions: ClassVar = "0"
    flexible: ClassVar = "0+"

    version: Int16 = 0


class KRaftVersionRecord(Stored):
    """The value of KRAFT_VERSION. Version 1 means a quorum whose voters can change (KIP-853)."""

    versions: ClassVar = "0"
    flexible: ClassVar = "0+"

    version: Int16 = 0
    kraft_version: Int16 = 0


class Endpoint(StoredPart):
    name: str = ""
    host: str = ""
    port: UInt16 = 0


class KRaftVersionFeature(StoredPart):
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class VotersRecordVoter(StoredPart):
    voter_id: Int32 = 0
    voter_directory_id: UUID = NIL
    endpoints: list[Endpoint] = []
    kraft_version_feature: KRaftVersionFeature = field(default_factory=KRaftVersionFeature)


class VotersRecord(Stored):
    """The value of KRAFT_VOTERS: the voters from this offset on."""

    versions: ClassVar = "0"
    flexible: ClassVar = "0+"

    version: Int16 = 0
    voters: list[VotersRecordVoter] = []
