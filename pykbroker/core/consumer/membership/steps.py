"""The steps that a member asks the user's task to carry out, and the settings of a member."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from pykbroker.core.topic_partition import TopicPartition
from wire.declare import Request


class MemberSettings(msgspec.Struct, frozen=True):
    """The settings of a member, with Kafka's defaults. Times are in ms."""

    group_id: str
    instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: float = 3000
    poll_interval_ms_max: int = 300_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: float = 100
    retry_backoff_ms_max: float = 1000
    rack: str | None = None
    commits: bool = True
    """Whether `enable.auto.commit` is true, so that offsets are committed before partitions are given away."""
    server_assignor: str | None = None


class RebalanceEvent(Enum):
    """The methods of a rebalance listener."""

    REVOKED = "on_partitions_revoked"
    ASSIGNED = "on_partitions_assigned"
    LOST = "on_partitions_lost"


class LeaveMode(Enum):
    """Whether a member leaves its group when it is closed (KIP-1092). By default, only a dynamic member does."""

    DEFAULT = "default"
    LEAVE = "leave group"
    REMAIN = "remain in group"


class CallListener(NamedTuple):
    """A step: call the rebalance listener. The answer is whether it returned without an error."""

    event: RebalanceEvent
    partitions: tuple[TopicPartition, ...]


class CommitOffsets(NamedTuple):
    """A step: commit the positions, and answer once the commit has succeeded or failed for good."""


class SendToCoordinator(NamedTuple):
    """A step: send a request to the coordinator. The answer is the response, or None if there is none."""

    request: Request[Any]
    timeout_ms: float


class LoadTopics(NamedTuple):
    """A step of a classic group's leader: refresh the metadata of the topics of all members.

    The answer has the racks of their partitions' replicas, as assignors need them.
    """

    topics: frozenset[str]


MemberStep = CallListener | CommitOffsets | SendToCoordinator | LoadTopics
MemberSteps = Generator[MemberStep, Any, None]


def listener_call(event: RebalanceEvent, partitions: Iterable[TopicPartition]) -> CallListener:
    """Return the step with sorted partitions."""
    return CallListener(event, tuple(sorted(partitions)))
