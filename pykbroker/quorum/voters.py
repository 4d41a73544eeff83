"""The records about the voters of the metadata log, as a cluster with one voter is formatted (KIP-853)."""

from __future__ import annotations

from collections.abc import Sequence

from pykbroker.core.metadata.features import KRAFT_FEATURE, SUPPORTED
from pykbroker.core.metadata.image import Endpoint
from pykbroker.quorum.snapshot_file import QuorumRecord, encode_snapshot
from wire.stored.control import Endpoint as VoterEndpoint
from wire.stored.control import KRaftVersionFeature, KRaftVersionRecord, VotersRecord, VotersRecordVoter

DYNAMIC_VOTERS = 1
"""The level of kraft.version at which the metadata log records the voters."""


def only_voter(node_id: int, directory_id: bytes, endpoints: Sequence[Endpoint]) -> VotersRecord:
    """Return the record of a quorum whose only voter is this node, with its endpoints for other controllers."""
    least, most = SUPPORTED[KRAFT_FEATURE]
    voter = VotersRecordVoter(
        voter_id=node_id,
        voter_directory_id=directory_id,
        endpoints=[VoterEndpoint(name=one.name, host=one.host, port=one.port) for one in endpoints],
        kraft_version_feature=KRaftVersionFeature(min_supported_version=least, max_supported_version=most),
    )
    return VotersRecord(voters=[voter])


def quorum_records(voters: VotersRecord) -> tuple[QuorumRecord, ...]:
    """Return all records about a quorum whose voters the log records."""
    return KRaftVersionRecord(kraft_version=DYNAMIC_VOTERS), voters


def formatted_snapshot(voters: VotersRecord, now_ms: int) -> list[bytes]:
    """Return the batches of the snapshot that formatting writes, like `kafka-storage.sh format --standalone`."""
    return encode_snapshot((), 0, 0, now_ms, quorum_records(voters))
