"""A classic group: its members, its generation, and its members' common protocol."""

from __future__ import annotations

from collections import Counter
from math import inf

from pykbroker.core.coordinator.record import CoordinatorRecord
from pykbroker.core.errors import ApiError
from pykbroker.core.group.classic.member import ClassicMember, Protocols
from pykbroker.core.group.classic.state import ANSWERS, MAY_FOLLOW, ClassicGroupState
from pykbroker.core.group.classic.subscription import subscribed_topics
from pykbroker.core.outcome import Token
from wire.error_codes import ErrorCode
from wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from wire.messages.list_groups import ListedGroup
from wire.stored.classic_group import GroupMetadataKey

CONSUMER = "consumer"
"""The protocol type of groups whose members subscribe to topics."""


class ClassicGroup:
    """A classic group. `state_ms` is the wall-clock time at which its state began, or -1 if its record has none.

    `assigned_ms` is when the leader sent this generation's assignment, or -inf. `pending` has member ids that were
    assigned to clients that have not joined yet. `unsynced` has members that have joined the generation and not sent
    SyncGroup yet. `topics` has the subscribed topics, or None if they are unknown. `must_begin` is set if the last
    record converted a consumer group to this classic group: it must then rebalance.
    """

    def __init__(self, group_id: str, wall_ms: int) -> None:
        self.id, self.state, self.state_ms = group_id, ClassicGroupState.EMPTY, wall_ms
        self.previous_state = ClassicGroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static: dict[str, str] = {}  # instance id -> member id
        self.pending: set[str] = set()
        self.unsynced: set[str] = set()
        self.assigned_ms = -inf  # monotonic
        self.topics: frozenset[str] | None = None
        self.must_begin = False
        self.joined = 0
        self.initial_ms_left: int | None = None  # time left for further delays of the first rebalance
        self.member_added = False  # whether a member joined during the delay of the first rebalance
        self._supporters: Counter[str] = Counter()  # protocol -> number of members that support it

    # Members

    def check(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """Return the member.

        Raise ApiError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID if the ids are not those of a member.
        """
        if instance_id is not None:
            known = self.static.get(instance_id)
            # Clients stop on FENCED_INSTANCE_ID. After UNKNOWN_MEMBER_ID the older instance would join again, and two
            # instances would replace each other forever (KIP-345).
            if known is not None and known != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
            if known is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def check_current(self, member_id: str, instance_id: str | None, generation: int) -> ClassicMember:
        """Return the member as `check` does. Raise ApiError ILLEGAL_GENERATION unless the generation is current."""
        member = self.check(member_id, instance_id)
        if generation != self.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        return member

    def add(self, member: ClassicMember) -> None:
        """Add a new member, which is no longer pending. The first member becomes the leader."""
        if self.leader is None:
            self.leader = member.id
        self.members[member.id] = member
        self._supporters.update({name for name, _ in member.protocols})
        self.joined += member.joining is not None
        self.pending.discard(member.id)
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id

    def remove(self, member_id: str) -> ClassicMember | None:
        """Remove a member or a pending member id. If it was the leader, another member becomes the leader."""
        self.pending.discard(member_id)
        self.unsynced.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is not None:
            self._supporters.subtract({name for name, _ in member.protocols})
            self.joined -= member.joining is not None
            if member.instance_id is not None:
                self.static.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def rename(self, member: ClassicMember, member_id: str) -> None:
        """Give a static member a new member id. Its position among the members stays."""
        assert member.instance_id is not None
        self.members = {member_id if known == member.id else known: one for known, one in self.members.items()}
        self.static[member.instance_id] = member_id
        for members in (self.pending, self.unsynced):
            members.discard(member.id)
        if self.leader == member.id:
            self.leader = member_id
        member.id = member_id

    def set_protocols(self, member: ClassicMember, protocols: Protocols) -> None:
        """Replace the member's supported protocols."""
        self._supporters.subtract({name for name, _ in member.protocols})
        member.protocols = protocols
        self._supporters.update({name for name, _ in protocols})

    def set_joining(self, member: ClassicMember, token: Token | None) -> Token | None:
        """Store the token of the member's waiting JoinGroup, or None. Return the previous one."""
        before, member.joining = member.joining, token
        self.joined += (token is not None) - (before is not None)
        return before

    @property
    def is_rebalancing(self) -> bool:
        """Whether a rebalance is in progress or about to begin."""
        return self.must_begin or self.state in (
            ClassicGroupState.PREPARING_REBALANCE,
            ClassicGroupState.COMPLETING_REBALANCE,
        )

    @property
    def all_joined(self) -> bool:
        """Whether all members have joined the rebalance."""
        return self.joined == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """Return the longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # Protocols

    def supports_any_of(self, protocol_type: str, names: list[str]) -> bool:
        """Whether a client that supports these protocols can be a member."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type and names)
        return self.protocol_type == protocol_type and any(
            self._supporters[name] == len(self.members) for name in names
        )

    def select_protocol(self) -> str:
        """Return the protocol with the most votes among those that all members support."""
        candidates = {name for name, count in self._supporters.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def elect(self) -> bool:
        """Choose a leader that has joined, the current leader if possible. Return False if no member has joined."""
        led = self.members.get(self.leader or "")
        if led is not None and led.joining is None:
            joined = next((member.id for member in self.members.values() if member.joining is not None), None)
            self.leader = joined or self.leader
            return joined is not None
        return led is not None

    # States

    def move(self, state: ClassicGroupState, wall_ms: int) -> None:
        """Change to a state that may follow the current one."""
        assert self.state in MAY_FOLLOW[state], f"{self.id}: {self.state} -> {state}"
        self.previous_state, self.state, self.state_ms = self.state, state, wall_ms

    def begin_generation(self, wall_ms: int) -> None:
        """Begin the next generation with the current members."""
        self.generation += 1
        self.protocol = self.select_protocol()
        self.learn_topics()
        self.move(ClassicGroupState.COMPLETING_REBALANCE, wall_ms)

    def learn_topics(self) -> None:
        """Read the members' subscribed topics from their metadata for the selected protocol."""
        self.topics = None
        if self.protocol_type == CONSUMER and (self.protocol is not None or not self.members):
            self.topics = subscribed_topics(member.metadata(self.protocol) for member in self.members.values())

    def subscribes(self, topic: str) -> bool:
        """Whether a member may read the topic.

        While a consumer group's subscriptions are unknown, every topic counts.
        """
        return self.protocol_type == CONSUMER if self.topics is None else topic in self.topics

    # The interface `Group`

    @property
    def delete_error(self) -> ErrorCode:
        """Return the reason why the group cannot be deleted, or NONE."""
        return ANSWERS[self.state].delete

    @property
    def offset_delete_error(self) -> ErrorCode:
        """Return NON_EMPTY_GROUP for a group with members that do not subscribe to topics."""
        opaque = self.state is not ClassicGroupState.EMPTY and self.protocol_type != CONSUMER
        return ErrorCode.NON_EMPTY_GROUP if opaque else ErrorCode.NONE

    def listed(self) -> ListedGroup:
        return ListedGroup(self.id, self.protocol_type, self.state, "classic")

    def described(self) -> DescribedGroup:
        """Return the group as DescribeGroups describes it. The protocol is omitted unless the group is Stable."""
        stable = self.state is ClassicGroupState.STABLE
        return DescribedGroup(
            group_id=self.id,
            group_state=self.state,
            protocol_type=self.protocol_type,
            protocol_data=(self.protocol or "") if stable else "",
            members=[
                DescribedGroupMember(
                    member.id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    member.metadata(self.protocol) if stable else b"",
                    member.assignment,
                )
                for member in self.members.values()
            ],
        )

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Do nothing: every client may fetch the offsets of a classic group."""

    def retained_since_ms(self, commit_ms: int) -> int | None:
        """Return the time from which an offset's retention counts: its commit, or when the group became empty.

        Return None while the offset must be kept. A group with members keeps all offsets unless it is Stable and its
        subscriptions are known.
        """
        if not self.protocol_type:
            return commit_ms
        if self.state is ClassicGroupState.EMPTY:
            return self.state_ms if self.state_ms >= 0 else commit_ms
        known = self.protocol_type == CONSUMER and self.topics is not None and self.state is ClassicGroupState.STABLE
        return commit_ms if known else None

    def tombstones(self) -> list[CoordinatorRecord]:
        return [CoordinatorRecord(GroupMetadataKey(group=self.id), None)]
