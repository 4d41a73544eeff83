"""The check that a scripted node may serve a partition."""

from __future__ import annotations

from typing import Protocol

from pykbroker.core.errors import ApiError
from pykbroker.core.fetch.session_cache import FetchSessionCache
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.sim.scripted.log import ScriptedLog
from pykbroker.sim.scripted.state import ScriptedState
from wire.declare import NIL
from wire.error_codes import ErrorCode

HINTED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""The errors that come with the current leader (KIP-951)."""


class ServingNode(Protocol):
    """The parts of a node that its answers need: its id, the state of its cluster, and its fetch sessions."""

    node_id: int
    state: ScriptedState
    sessions: FetchSessionCache


def log_of(
    node: ServingNode,
    partition: TopicPartition | None,
    topic_id: bytes,
    leader_epoch: int = -1,
    *,
    follower: bool = False,
) -> ScriptedLog:
    """Return a partition's log. Raise ApiError if this node does not lead it, or if the client's epoch differs.

    With `follower`, a replica that is no leader also serves.
    """
    found = None if partition is None else node.state.partition(partition)
    if partition is None or found is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID if topic_id != NIL else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if found.leader != node.node_id and not (follower and node.node_id in found.replicas):
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if 0 <= leader_epoch < found.leader_epoch:
        raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
    if leader_epoch > found.leader_epoch:
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)
    return node.state.log(partition)
