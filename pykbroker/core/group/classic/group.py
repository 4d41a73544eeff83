"""A classic group: its members, its generation, and the protocol that they have in common."""

from __future__ import annotations

from collections import Counter
from math import inf

from pykbroker.core.errors import ApiError
from pykbroker.core.group.classic.member import ClassicMember, Protocols
from pykbroker.core.group.classic.state import MAY_FOLLOW, ClassicGroupState
from pykbroker.core.group.classic.subscription import subscribed_topics
from pykbroker.core.outcome import Token
from wire.error_codes import ErrorCode

CONSUMER = "consumer"
"""The protocol type of groups whose members subscribe to topics."""


class ClassicGroup:
    """`state_ms` is since when, of day, it is in its state; -1 in records of old.

    `assigned_ms` is when the leader brought the assignments of this generation, -inf where that is not known.
    `pending` have been given a member id and not used it yet; `unsynced` have joined a generation and not asked for
    their assignment yet. `topics` are those subscribed to; None where that is not known. `must_begin`: the last record
    is that of a group that has just become a classic one.
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
        self.assigned_ms = -inf  # of the clock of timers
        self.topics: frozenset[str] | None = None
        self.must_begin = False
        self.joined = 0
        self.initial_ms_left: int | None = None  # of the time in which a first rebalance may be put off
        self.member_added = False  # while it is put off
        self._knowing: Counter[str] = Counter()  # protocol -> how many members know it

    # Members

    def check(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member. ApiError UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
        if instance_id is not None:
            known = self.static.get(instance_id)
            if known is not None and known != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
            if known is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def check_current(self, member_id: str, instance_id: str | None, generation: int) -> ClassicMember:
        """As `check`, for one that says in which generation it is. ApiError also ILLEGAL_GENERATION."""
        member = self.check(member_id, instance_id)
        if generation != self.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        return member

    def add(self, member: ClassicMember) -> None:
        """A new member; the first one leads. It is pending no longer."""
        if self.leader is None:
            self.leader = member.id
        self.members[member.id] = member
        self._knowing.update({name for name, _ in member.protocols})
        self.joined += member.joining is not None
        self.pending.discard(member.id)
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id

    def remove(self, member_id: str) -> ClassicMember | None:
        """Forget a member, pending or not; if it led, another one leads."""
        self.pending.discard(member_id)
        self.unsynced.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is not None:
            self._knowing.subtract({name for name, _ in member.protocols})
            self.joined -= member.joining is not None
            if member.instance_id is not None:
                self.static.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def rename(self, member: ClassicMember, member_id: str) -> None:
        """A static member goes on under another id, in the same place."""
        assert member.instance_id is not None
        self.members = {member_id if known == member.id else known: one for known, one in self.members.items()}
        self.static[member.instance_id] = member_id
        for members in (self.pending, self.unsynced):
            members.discard(member.id)
        if self.leader == member.id:
            self.leader = member_id
        member.id = member_id

    def speak(self, member: ClassicMember, protocols: Protocols) -> None:
        """The member says anew which protocols it knows."""
        self._knowing.subtract({name for name, _ in member.protocols})
        member.protocols = protocols
        self._knowing.update({name for name, _ in protocols})

    def park_joining(self, member: ClassicMember, token: Token | None) -> Token | None:
        """The member's caller waits for the rebalance from now on, or no longer; answers who did before."""
        before, member.joining = member.joining, token
        self.joined += (token is not None) - (before is not None)
        return before

    @property
    def is_rebalancing(self) -> bool:
        """Whether something has yet to be assigned anew: a rebalance is under way, or about to begin."""
        return self.must_begin or self.state in (
            ClassicGroupState.PREPARING_REBALANCE,
            ClassicGroupState.COMPLETING_REBALANCE,
        )

    @property
    def all_joined(self) -> bool:
        """Whether a rebalance has nobody left to wait for."""
        return self.joined == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the most patient member would have the others wait."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # Protocols

    def takes(self, protocol_type: str, names: list[str]) -> bool:
        """Whether one who knows these protocols could be a member."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type and names)
        return self.protocol_type == protocol_type and any(self._knowing[name] == len(self.members) for name in names)

    def select_protocol(self) -> str:
        """Of those that all know, the one that most like best."""
        candidates = {name for name, count in self._knowing.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def elect(self) -> bool:
        """A leader among those who have joined, the old one if it has. False: there is none."""
        led = self.members.get(self.leader or "")
        if led is not None and led.joining is None:
            joined = next((member.id for member in self.members.values() if member.joining is not None), None)
            self.leader = joined or self.leader
            return joined is not None
        return led is not None

    # States

    def move(self, state: ClassicGroupState, wall_ms: int) -> None:
        """Go on to a state that may follow this one."""
        assert self.state in MAY_FOLLOW[state], f"{self.id}: {self.state} -> {state}"
        self.previous_state, self.state, self.state_ms = self.state, state, wall_ms

    def begin_generation(self, wall_ms: int) -> None:
        """All who are members now are members of the next generation."""
        self.generation += 1
        self.protocol = self.select_protocol()
        self.learn_topics()
        self.move(ClassicGroupState.COMPLETING_REBALANCE, wall_ms)

    def learn_topics(self) -> None:
        """What the members subscribe to, in the protocol that they agreed on."""
        self.topics = None
        if self.protocol_type == CONSUMER and (self.protocol is not None or not self.members):
            self.topics = subscribed_topics(member.metadata(self.protocol) for member in self.members.values())

    def subscribes(self, topic: str) -> bool:
        """Whether a member reads the topic; consumers of whom that is not known may read any."""
        return self.protocol_type == CONSUMER if self.topics is None else topic in self.topics
