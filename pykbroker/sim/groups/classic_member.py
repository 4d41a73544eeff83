"""A member of a classic group.

The member joins, computes the assignment if it is the leader, syncs, and joins again when a rebalance begins.
"""

from __future__ import annotations

from itertools import groupby
from math import inf

import trio

from pykbroker.sim.client import SimConnection
from pykbroker.sim.groups.history import Assigned, GroupHistory
from pykbroker.sim.groups.member import REBALANCE_S, SESSION_S
from pykbroker.sim.groups.offsets import Committer
from pykbroker.sim.groups.refusal import require
from pykbroker.sim.history import Place
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.find_coordinator import CoordinatorType
from wire.messages.heartbeat import HeartbeatRequest
from wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from wire.sentinels import NO_GENERATION_ID
from wire.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from wire.stored.framing import decode_versioned, encode_versioned

STATIC_JOIN_VERSION_FIRST, STATIC_VERSION_FIRST = 5, 3
MEMBERS_VERSION_FIRST = 3
PROTOCOL_TYPE, PROTOCOL, PROTOCOL_VERSION = "consumer", "range", 3


class ClassicSimMember:
    """A classic member that subscribes to all of `places`. It matches `member.SimMember`.

    With `instance_id` it is a static member.
    """

    def __init__(
        self, name: str, group: str, history: GroupHistory, places: tuple[Place, ...], instance_id: str | None = None
    ) -> None:
        self.name, self.group, self._history, self._places = name, group, history, places
        self._instance_id = instance_id
        self._member_id, self._generation = "", NO_GENERATION_ID
        self.owned: tuple[Place, ...] = ()
        self.lives_until_s = -inf

    @property
    def identity(self) -> Committer:
        return Committer(self._member_id, self._generation, self._instance_id)

    def forget(self, *, forgotten: bool) -> None:
        """Drop the membership. If `forgotten` is true, drop the member id too."""
        self.owned, self._generation = (), NO_GENERATION_ID
        if forgotten:
            self._member_id, self.lives_until_s = "", -inf

    async def enter(self, connection: SimConnection) -> None:
        """Join the group and get an assignment. Raise Evicted or an error of LOST."""
        await connection.find_coordinator(self.group, CoordinatorType.GROUP)
        self.forget(forgotten=False)
        joined = await self._join(connection)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        await self._sync(connection, joined)

    async def _join(self, connection: SimConnection) -> JoinGroupResponse:
        version = connection.any_version(ApiKey.JOIN_GROUP, STATIC_JOIN_VERSION_FIRST if self._instance_id else 0)
        subscription = ConsumerProtocolSubscription(topics=sorted({topic for topic, _ in self._places}))
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=int(SESSION_S * 1000),
            rebalance_timeout_ms=int(REBALANCE_S * 1000),
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(PROTOCOL, encode_versioned(subscription, PROTOCOL_VERSION))],
        )
        answer = await connection.ask(request, version)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request.member_id = answer.member_id
            answer = await connection.ask(request, version)
        self._require(answer.error_code)
        return answer

    async def _sync(self, connection: SimConnection, joined: JoinGroupResponse) -> None:
        version = connection.any_version(ApiKey.SYNC_GROUP, STATIC_VERSION_FIRST if self._instance_id else 0)
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
        )
        if joined.leader == self._member_id and not joined.skip_assignment:
            members = sorted(member.member_id for member in joined.members)
            request.assignments = [
                SyncGroupRequestAssignment(member_id, _encoded(self._places[place :: len(members)]))
                for place, member_id in enumerate(members)
            ]
        answer = await connection.ask(request, version)
        self._require(answer.error_code)
        if answer.assignment:
            assigned = decode_versioned(ConsumerProtocolAssignment, answer.assignment).assigned_partitions
            self.owned = tuple(sorted((one.topic, index) for one in assigned for index in one.partitions))
        self._history.assigned.append(
            Assigned(self.group, self._generation, self.name, self.owned, trio.current_time())
        )

    async def beat(self, connection: SimConnection) -> None:
        """Send a heartbeat. Raise Evicted if the member must join again.

        Raise an error of LOST if the connection is lost.
        """
        version = connection.any_version(ApiKey.HEARTBEAT, STATIC_VERSION_FIRST if self._instance_id else 0)
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=self._instance_id,
        )
        began_s = trio.current_time()
        self._require((await connection.ask(request, version)).error_code)
        self.lives_until_s = began_s + SESSION_S

    async def leave(self, connection: SimConnection) -> None:
        """Leave the group. A static member sends no request, and rejoins with another member id later.

        Raise an error of LOST if the connection is lost.
        """
        member_id = self._member_id
        self.forget(forgotten=True)
        if self._instance_id is None:
            version = connection.any_version(ApiKey.LEAVE_GROUP)
            request = LeaveGroupRequest(group_id=self.group)
            if version < MEMBERS_VERSION_FIRST:
                request.member_id = member_id
            else:
                request.members = [MemberIdentity(member_id)]
            await connection.ask(request, version)

    def _require(self, number: int) -> None:
        require([ErrorCode(number)], self._history, f"{self.name} of {self.group}")


def _encoded(places: tuple[Place, ...]) -> bytes:
    return encode_versioned(
        ConsumerProtocolAssignment(
            assigned_partitions=[
                ConsumerProtocolAssignmentTopicPartition(topic, [index for _, index in found])
                for topic, found in groupby(sorted(places), key=lambda place: place[0])
            ]
        ),
        PROTOCOL_VERSION,
    )
