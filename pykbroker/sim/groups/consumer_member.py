"""A member of a consumer group (KIP-848).

The member's heartbeats report the owned partitions, and the responses have the assigned partitions.
"""

from __future__ import annotations

from itertools import groupby
from math import inf

import trio

from pykbroker.sim.client import SimConnection
from pykbroker.sim.groups.history import GroupHistory, Lease
from pykbroker.sim.groups.member import SESSION_S
from pykbroker.sim.groups.offsets import Committer
from pykbroker.sim.groups.refusal import require
from pykbroker.sim.history import Place
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from wire.messages.find_coordinator import CoordinatorType

JOINING, LEAVING, LEAVING_FOR_NOW = 0, -1, -2
REVOCATION_MS_MAX = 60_000
"""The rebalance timeout, longer than any pause of a member.

A member revokes partitions as soon as a heartbeat response requests it.
"""


class ConsumerMember:
    """A member of a consumer group. It matches `member.SimMember`.

    It revokes partitions at once, and reports the revocation in the next heartbeat.
    """

    def __init__(
        self, name: str, group: str, history: GroupHistory, topics: tuple[str, ...], instance_id: str | None = None
    ) -> None:
        self.name, self.group, self._history, self._topics = name, group, history, topics
        self._instance_id = instance_id
        self._lives = 0
        self._member_id, self._epoch = "", JOINING
        self._leases: dict[Place, Lease] = {}
        self.lives_until_s = -inf

    @property
    def owned(self) -> tuple[Place, ...]:
        return tuple(sorted(self._leases))

    @property
    def identity(self) -> Committer:
        """Return the member as OffsetCommit names it."""
        return Committer(self._member_id, self._epoch, self._instance_id, by_epoch=True)

    def forget(self, *, forgotten: bool) -> None:
        """Drop the membership, so that the member joins again, with another member id if `forgotten` is true."""
        self._own(())
        self._epoch = JOINING
        if forgotten:
            self._member_id, self.lives_until_s = "", -inf

    async def enter(self, connection: SimConnection) -> None:
        """Join the group, or send a full heartbeat on a new connection. Raise Evicted or an error of LOST."""
        await connection.find_coordinator(self.group, CoordinatorType.GROUP)
        if not self._member_id:
            self._lives += 1
            self._member_id = f"{self.name}-{self._lives}"
        await self._heartbeat(connection, self._request(whole=True))

    async def beat(self, connection: SimConnection) -> None:
        """Send a heartbeat with the owned partitions. Raise Evicted or an error of LOST."""
        await self._heartbeat(connection, self._request(whole=False))

    async def leave(self, connection: SimConnection) -> None:
        """Leave the group. A static member leaves temporarily, and rejoins with another member id.

        Raise an error of LOST if the connection is lost.
        """
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self._member_id,
            instance_id=self._instance_id,
            member_epoch=LEAVING if self._instance_id is None else LEAVING_FOR_NOW,
        )
        self.forget(forgotten=True)
        version = connection.any_version(ApiKey.CONSUMER_GROUP_HEARTBEAT)
        await connection.ask(request, version)

    def _request(self, *, whole: bool) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self._member_id, member_epoch=self._epoch, instance_id=self._instance_id
        )
        if whole:
            request.rebalance_timeout_ms = REVOCATION_MS_MAX
            request.subscribed_topic_names = list(self._topics)
        return request

    async def _heartbeat(self, connection: SimConnection, request: ConsumerGroupHeartbeatRequest) -> None:
        request.topic_partitions = [
            TopicPartitions(connection.topic_ids[topic], [index for _, index in found])
            for topic, found in groupby(self.owned, key=lambda place: place[0])
        ]
        version = connection.any_version(ApiKey.CONSUMER_GROUP_HEARTBEAT)
        began_s = trio.current_time()
        answer = await connection.ask(request, version)
        require([ErrorCode(answer.error_code)], self._history, f"{self.name} of {self.group}")
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self._own(
                tuple(
                    (connection.topic_names[one.topic_id], index)
                    for one in answer.assignment.topic_partitions
                    for index in one.partitions
                )
            )
        self.lives_until_s = began_s + SESSION_S
        for lease in self._leases.values():
            lease.until_s = self.lives_until_s

    def _own(self, places: tuple[Place, ...]) -> None:
        """Replace the owned partitions by `places`, and record this in the history."""
        now_s = trio.current_time()
        for place in [place for place in self._leases if place not in places]:
            lease = self._leases.pop(place)
            lease.until_s = min(lease.until_s, now_s)
        for place in places:
            if place not in self._leases:
                self._leases[place] = lease = Lease(self.group, self.name, place, now_s, now_s)
                self._history.leases.append(lease)
