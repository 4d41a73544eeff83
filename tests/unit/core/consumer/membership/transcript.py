"""A transcript of a member: its steps and heartbeats as lines of text, with the answers of a scripted coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykbroker.core.consumer.assignors.assignor import RebalanceProtocol
from pykbroker.core.consumer.assignors.protocol import encode_assignment
from pykbroker.core.consumer.membership.classic import ClassicMembership
from pykbroker.core.consumer.membership.consumer import ConsumerMembership
from pykbroker.core.consumer.membership.steps import (
    CallListener,
    CommitOffsets,
    LeaveMode,
    LoadTopics,
    MemberSettings,
    SendToCoordinator,
)
from pykbroker.core.consumer.offset_reset import EARLIEST
from pykbroker.core.consumer.subscription import ConsumerSubscription
from pykbroker.core.topic_partition import TopicPartition
from wire.error_codes import ErrorCode
from wire.messages.consumer_group_heartbeat import Assignment, ConsumerGroupHeartbeatResponse, TopicPartitions
from wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def partition(text: str) -> TopicPartition:
    topic, index = text.rsplit("-", 1)
    return TopicPartition(topic, int(index))


def topic_id(topic: str) -> bytes:
    return topic.encode().ljust(16, b"\0")


class ScriptedAssignor:
    """An assignor that notes its calls in the transcript, and gives no member anything."""

    name = "range"

    def __init__(self, lines: list[str], *, is_cooperative: bool) -> None:
        self.protocols = frozenset({RebalanceProtocol.COOPERATIVE if is_cooperative else RebalanceProtocol.EAGER})
        self.lines = lines

    def user_data(self) -> bytes | None:
        return None

    def assign(self, cluster: Any, subscriptions: Any) -> dict[str, list[TopicPartition]]:
        self.lines.append(f"assign {' '.join(sorted(cluster))} to {' '.join(sorted(subscriptions))}")
        return {name: [] for name in subscriptions}

    def on_assignment(self, partitions: Any, generation: int) -> None:
        pass


class ClassicTranscript:
    """A classic member. `joins` and `syncs` are the next answers of the coordinator."""

    def __init__(self, *topics: str, is_cooperative: bool = False, **settings: Any) -> None:
        self.now = 0.0
        self.lines: list[str] = []
        self.subscription = ConsumerSubscription(EARLIEST)
        self.subscription.subscribe(topics)
        assignor = ScriptedAssignor(self.lines, is_cooperative=is_cooperative)
        self.member = ClassicMembership(
            MemberSettings("g", **settings), self.subscription, [assignor], lambda a, b: 1.0, 0.0
        )
        self.joins: list[JoinGroupResponse | None] = []
        self.syncs: list[SyncGroupResponse | None] = []
        self.during_sync: Any = None

    def poll(self) -> list[str]:
        """Poll once, and return the lines of the steps."""
        self.lines.clear()
        self.member.poll(self.now)
        self.run()
        return list(self.lines)

    def run(self) -> None:
        while (step := self.member.step(self.now)) is not None:
            self.member.answer(self._carry_out(step), self.now)

    def leave(self, mode: LeaveMode = LeaveMode.DEFAULT) -> list[str]:
        self.lines.clear()
        self.member.leave(mode, "the consumer is being closed", self.now)
        while (step := self.member.steps.pending) is not None:
            self.member.answer(self._carry_out(step), self.now)
        return list(self.lines)

    def _carry_out(self, step: Any) -> Any:
        match step:
            case CommitOffsets():
                self.lines.append("commit")
            case CallListener(event, partitions):
                self.lines.append(" ".join([event.name.lower(), *map(str, partitions)]))
                return True
            case LoadTopics(topics):
                return {topic: [frozenset()] for topic in topics}
            case SendToCoordinator(JoinGroupRequest() as join):
                self.lines.append(f"join {join.member_id or '-'} because {join.reason or '-'}")
                return self.joins.pop(0)
            case SendToCoordinator(SyncGroupRequest() as sync):
                self.lines.append(f"sync {sync.member_id}@{sync.generation_id} for {len(sync.assignments)}")
                if self.during_sync is not None:
                    self.during_sync()
                return self.syncs.pop(0)
            case SendToCoordinator(LeaveGroupRequest() as leave):
                self.lines.append(f"leave {leave.members[0].member_id} because {leave.members[0].reason}")
                return LeaveGroupResponse()
        return None

    def joined(self, generation: int, member_id: str = "m1", leader: str = "m2", *members: tuple[str, bytes]) -> None:
        self.joins.append(
            JoinGroupResponse(
                generation_id=generation,
                protocol_name="range",
                leader=leader,
                member_id=member_id,
                members=[JoinGroupResponseMember(name, None, data) for name, data in members],
            )
        )

    def join_error(self, code: ErrorCode, member_id: str = "") -> None:
        self.joins.append(JoinGroupResponse(error_code=code, member_id=member_id))

    def synced(self, *partitions: str) -> None:
        self.syncs.append(SyncGroupResponse(assignment=encode_assignment(map(partition, partitions))))

    def settle(self, generation: int, *partitions: str) -> list[str]:
        """Poll, and answer JoinGroup and SyncGroup with this generation and assignment."""
        self.joined(generation)
        self.synced(*partitions)
        return self.poll()

    def heartbeat(self, code: ErrorCode | None = ErrorCode.NONE, after_ms: float = 3000.0) -> str:
        """Send a heartbeat `after_ms` later, and answer it with this error code, or not at all for None."""
        self.now += after_ms
        request = self.member.heartbeat(self.now)
        if request is None:
            return "nothing"
        if isinstance(request, LeaveGroupRequest):
            return f"leave {request.members[0].member_id} because {request.members[0].reason}"
        assert isinstance(request, HeartbeatRequest)
        response = None if code is None else HeartbeatResponse(error_code=code)
        self.member.heartbeat_answered(request, response, self.now)
        return f"heartbeat {request.member_id}@{request.generation_id}"


class ConsumerTranscript:
    """A member of the consumer protocol, with topic ids that are the topics' names."""

    def __init__(self, *topics: str, known: tuple[str, ...] = ("a", "b"), **settings: Any) -> None:
        self.now = 0.0
        self.subscription = ConsumerSubscription(EARLIEST)
        if topics:
            self.subscription.subscribe(topics)
        self.known = set(known)
        self.member = ConsumerMembership(
            MemberSettings("g", **settings), self.subscription, "m1", self.name_of, lambda a, b: 1.0, 0.0
        )
        self.listener_fails = False

    def name_of(self, topic_id: bytes) -> str | None:
        name = topic_id.rstrip(b"\0").decode()
        return name if name in self.known else None

    def poll(self) -> list[str]:
        """Poll once, and return the lines of the steps."""
        self.member.poll(self.now)
        return self.run()

    def run(self) -> list[str]:
        lines = []
        while (step := self.member.step(self.now)) is not None:
            if isinstance(step, CommitOffsets):
                lines.append("commit")
                self.member.answer(None, self.now)
            else:
                assert isinstance(step, CallListener)
                lines.append(" ".join([step.event.name.lower(), *map(str, step.partitions)]))
                self.member.answer(not self.listener_fails, self.now)
                if self.listener_fails:
                    break
        return lines

    def leave(self, mode: LeaveMode = LeaveMode.DEFAULT) -> list[str]:
        self.member.leave(mode, "test", self.now)
        return self.run()

    def heartbeat(
        self,
        epoch: int | None = 1,
        assignment: Mapping[str, set[int]] | None = None,
        *,
        code: ErrorCode = ErrorCode.NONE,
        after_ms: float = 0.0,
    ) -> str:
        """Send a heartbeat `after_ms` later, and answer it. No epoch is no answer."""
        self.now += after_ms
        request = self.member.heartbeat(self.now)
        if request is None:
            return "nothing"
        response = None
        if epoch is not None:
            assigned = None
            if assignment is not None:
                parts = [TopicPartitions(topic_id(name), sorted(indexes)) for name, indexes in assignment.items()]
                assigned = Assignment(parts)
            response = ConsumerGroupHeartbeatResponse(
                error_code=code, member_id="m1", member_epoch=epoch, heartbeat_interval_ms=5000, assignment=assigned
            )
        self.member.heartbeat_answered(request, response, self.now)
        words = [f"heartbeat@{request.member_epoch}"]
        if request.subscribed_topic_names is not None:
            words.append("topics=" + ",".join(request.subscribed_topic_names))
        if request.subscribed_topic_regex is not None:
            words.append("regex=" + request.subscribed_topic_regex)
        if request.server_assignor is not None:
            words.append("assignor=" + request.server_assignor)
        if request.rebalance_timeout_ms != -1:
            words.append(f"timeout={request.rebalance_timeout_ms}")
        if request.topic_partitions is not None:
            names = [f"{self.name_of(each.topic_id)}{each.partitions}" for each in request.topic_partitions]
            words.append("owned=" + "".join(names))
        return " ".join(words)
