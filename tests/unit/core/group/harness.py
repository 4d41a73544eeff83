"""A harness for the group state machine: it replays decided records at once and keeps the reply to each caller."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from pykbroker.core.coordinator.record import CoordinatorRecord, LogRecord
from pykbroker.core.errors import ApiError
from pykbroker.core.group.machine import GroupMachine
from pykbroker.core.group.requests import ClientRequest
from pykbroker.core.group.settings import GroupSettings
from pykbroker.core.now import Now
from pykbroker.core.outcome import Entry, Outcome
from pykbroker.core.steps import finish
from wire.error_codes import ErrorCode
from wire.messages.describe_groups import DescribeGroupsRequest
from wire.messages.heartbeat import HeartbeatRequest
from wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from wire.stored.consumer_protocol import ConsumerProtocolSubscription
from wire.stored.framing import encode_versioned

WALL_MS = 1_700_000_000_000
SESSION_MS, REBALANCE_MS = 10_000, 60_000


class GroupHarness:
    """A group state machine and its log. Time only advances in `wait`, and `log` has every decided record."""

    def __init__(self, settings: GroupSettings | None = None, log: Iterable[LogRecord] = (), now_ms: float = 0) -> None:
        self.settings = settings or GroupSettings(group_initial_rebalance_delay_ms=0)
        self.machine = self.new_machine()
        self.log: list[LogRecord] = []
        self.now_ms = now_ms
        self.replies: dict[Any, Any] = {}
        self._replay(log)
        self._do(self.machine.loaded(Now(self.now_ms, self.wall_ms)))

    @property
    def wall_ms(self) -> int:
        return WALL_MS + int(self.now_ms)

    def new_machine(self) -> GroupMachine:
        return GroupMachine(self.settings, Random(1))

    def restarted(self) -> GroupHarness:
        """Return another harness whose state machine has replayed the same log."""
        return GroupHarness(self.settings, self.log, self.now_ms)

    def ask(self, request: Any, version: int, token: Any = None, client: str = "c") -> Any:
        """Return the response, None while the caller waits, or the error code of a refusal."""
        asked = ClientRequest(request, version, client, "/127.0.0.1") if hasattr(type(request), "key") else request
        return self.told(asked, token)

    def told(self, asked: Any, token: Any = None) -> Any:
        """Return what `ask` does, for a request that has its sender."""
        token = object() if token is None else token
        try:
            outcome = self.machine.handle(asked, token, Now(self.now_ms, self.wall_ms))
            self._do(outcome if isinstance(outcome, Outcome) else finish(outcome))
        except ApiError as error:
            return error.code
        return self.replies.get(token)

    def wait(self, ms: float) -> None:
        """Advance the time, and run each timer when it is due."""
        end = self.now_ms + ms
        while self.machine.deadline_ms <= end:
            self.now_ms = max(self.now_ms, self.machine.deadline_ms)
            self._do(self.machine.tick(Now(self.now_ms, self.wall_ms)))
        self.now_ms = end

    def _do(self, outcome: Any) -> None:
        self._replay(outcome.records)
        for token, response in outcome.replies:
            assert token not in self.replies, "a caller is answered only once"
            self.replies[token] = response

    def _replay(self, records: Iterable[LogRecord]) -> None:
        for record in records:
            self.machine.replay(Entry(len(self.log), record, record.producer_id, record.producer_epoch))
            self.log.append(record)

    # Requests of members

    def join(
        self,
        member_id: str = "",
        token: Any = None,
        *,
        group: str = "g",
        version: int = 9,
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        kind: str = "consumer",
        session_ms: int = SESSION_MS,
        client: str = "c",
    ) -> Any:
        offered = {"range": subscription("t")} if protocols is None else protocols
        return self.ask(
            JoinGroupRequest(
                group,
                session_ms,
                REBALANCE_MS,
                member_id,
                instance,
                kind,
                [JoinGroupRequestProtocol(name, metadata) for name, metadata in offered.items()],
            ),
            version,
            token,
            client,
        )

    def new_id(self, **kwargs: Any) -> str:
        """Return the member id from a MEMBER_ID_REQUIRED response."""
        refused = self.join(**kwargs)
        assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return str(refused.member_id)

    def sync(
        self, member: JoinGroupResponse, token: Any = None, given: dict[str, bytes] | None = None, **kwargs: Any
    ) -> Any:
        return self.ask(
            SyncGroupRequest(
                "g",
                member.generation_id,
                member.member_id,
                assignments=[SyncGroupRequestAssignment(*one) for one in (given or {}).items()],
                **kwargs,
            ),
            5,
            token,
        )

    def beat(self, member: JoinGroupResponse, instance: str | None = None, generation: int | None = None) -> Any:
        generation_id = member.generation_id if generation is None else generation
        answer = self.ask(HeartbeatRequest("g", generation_id, member.member_id, instance), 4)
        return answer if isinstance(answer, ErrorCode) else ErrorCode(answer.error_code)

    def leave(self, *members: tuple[str, str | None]) -> list[int]:
        response = self.ask(LeaveGroupRequest("g", members=[MemberIdentity(*one) for one in members]), 5)
        return [response] if isinstance(response, ErrorCode) else [member.error_code for member in response.members]

    def commit(
        self,
        offset: int,
        member: JoinGroupResponse | None = None,
        *,
        group: str = "g",
        topic: str = "t",
        partition: int = 0,
        metadata: str | None = "",
        version: int = 9,
        **kwargs: Any,
    ) -> Any:
        """Commit an offset; return the error code of the partition or of the request."""
        who = (-1, "") if member is None else (member.generation_id, member.member_id)
        response = self.ask(
            OffsetCommitRequest(
                group,
                *who,
                topics=[
                    OffsetCommitRequestTopic(
                        topic, partitions=[OffsetCommitRequestPartition(partition, offset, 7, metadata)]
                    )
                ],
                **kwargs,
            ),
            version,
        )
        return response if isinstance(response, ErrorCode) else ErrorCode(response.topics[0].partitions[0].error_code)

    def describe(self, group: str = "g", version: int = 6) -> Any:
        return self.ask(DescribeGroupsRequest([group]), version).groups[0]

    def state(self, group: str = "g") -> str:
        return str(self.describe(group).group_state)

    def stable(self, count: int, given: bytes = b"mine") -> list[JoinGroupResponse]:
        """Return `count` members of a stable group with assignments, the leader first."""
        ids = [self.new_id() for _ in range(count)]
        tokens = [object() for _ in ids]
        for member_id, token in zip(ids, tokens, strict=True):
            self.join(member_id, token)
        self.wait(0)
        members = [self.replies[token] for token in tokens]
        leader = next(member for member in members if member.leader == member.member_id)
        assert self.sync(leader, given=dict.fromkeys(ids, given)).assignment == given
        for member in members:
            assert self.sync(member).assignment == given
        assert self.state() == "Stable"
        return [leader, *(member for member in members if member is not leader)]

    def stored(self) -> list[Any]:
        """Return the values of all records in the log."""
        return [record.value for record in self.log if isinstance(record, CoordinatorRecord)]


def subscription(*topics: str) -> bytes:
    """Return a subscription to the topics in the format of Kafka's consumer protocol."""
    return encode_versioned(ConsumerProtocolSubscription(topics=list(topics)), 1)
