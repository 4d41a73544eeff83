"""The workload of ACLs: an operator denies groups and permits them again, and a client of each broker asks for them.

Each group is denied once: an ACL of another principal leaves it to nobody else. Two things must hold under all faults,
also after restarts. A broker that has denied a group never permits it again, unless the operator has begun to. The
broker beside the controller obeys an acknowledged change at once, and every other broker once the faults have ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import trio

from pykbroker.core.config.java_classes import AUTHORIZER, STANDARD_AUTHORIZER
from pykbroker.sim.client import LOST, Dialer, SimConnection
from pykbroker.sim.cluster.brief_topic import require
from pykbroker.sim.cluster.operated import OperatedWorkload
from pykbroker.sim.stage import Stage
from pykbroker.sim.workload import PROGRESS_S_MAX
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.create_acls import AclCreation, CreateAclsRequest
from wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from wire.messages.describe_groups import DescribeGroupsRequest

CONFIGS: Mapping[str, str] = {AUTHORIZER: STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
GROUP, LITERAL, READ, ALLOW, ANY = 3, 3, 3, 3, 1
PERMITTED = 0.3
"""The chance that a change permits a group instead of denying another one."""
CHANGE_S, ASK_S = 0.4, 0.1
"""The average times in seconds between two changes, and between two requests of a client."""


@dataclass
class GuardedGroup:
    """A group, how far its denial has come, and the brokers that have denied it."""

    name: str
    denied: bool = False
    permitting: bool = False
    denied_by: set[int] = field(default_factory=set)


class AclWorkload(OperatedWorkload):
    """The workload."""

    operator = "acl-operator"

    def __init__(self, stage: Stage, brokers: Mapping[int, tuple[str, int]]) -> None:
        super().__init__(stage, brokers)
        self._groups: list[GuardedGroup] = []

    @staticmethod
    def host_of_client(node_id: int) -> str:
        return f"acl-asker-{node_id}"

    async def settle(self) -> list[str]:
        """Finish the last change, and wait until each broker obeys all of them."""
        self._stopped = True
        findings = []
        with trio.move_on_after(PROGRESS_S_MAX) as late:
            await self._idle.wait()
            for node_id in self._brokers:
                await self._until_obeyed(node_id)
        if late.cancelled_caught:
            disobeyed = [group.name for group in self._groups if not self._is_obeyed_by_all(group)]
            findings.append(f"some broker does not obey the ACLs of {', '.join(disobeyed) or 'the last change'}")
        return findings

    def _is_obeyed_by_all(self, group: GuardedGroup) -> bool:
        return group.permitting or group.denied_by == {*self._brokers}

    async def _operate(self) -> None:
        """Change one group after another. A change is sent until it is acknowledged."""
        while not self._stopped:
            await trio.sleep(self._dice.expovariate(1 / CHANGE_S))
            denied = [group for group in self._groups if not group.permitting]
            if denied and self._dice.random() < PERMITTED:
                group = self._dice.choice(denied)
                group.permitting = True
                group.denied_by.clear()
                await self._operator.until_answered(partial(permit, group=group.name))
            else:
                group = GuardedGroup(f"guarded-{len(self._groups)}")
                self._groups.append(group)
                await self._operator.until_answered(partial(deny, group=group.name))
                group.denied = True
            self.acknowledged += 1
        self._idle.set()

    async def _watch(self, node_id: int) -> None:
        dice = self._stage.dice(self.host_of_client(node_id))
        while True:
            try:
                async with self._dialer(node_id).connected() as connection:
                    while True:
                        await trio.sleep(dice.expovariate(1 / ASK_S))
                        if self._groups:
                            await self._ask(connection, node_id, dice.choice(self._groups))
            except LOST:
                continue

    async def _until_obeyed(self, node_id: int) -> None:
        """Ask a broker for each group until it obeys the operator."""
        left = list(self._groups)
        while left:
            try:
                async with self._dialer(node_id).connected() as connection:
                    while left:
                        if await self._ask(connection, node_id, left[-1]) != left[-1].permitting:
                            left.pop()
                        else:
                            await trio.sleep(ASK_S)
            except LOST:
                continue

    async def _ask(self, connection: SimConnection, node_id: int, group: GuardedGroup) -> bool:
        """Return whether the broker denies the group, and note a broken promise."""
        was_denied = group.denied
        request = DescribeGroupsRequest(groups=[group.name])
        answer = await connection.ask(request, connection.any_version(ApiKey.DESCRIBE_GROUPS))
        denies = answer.groups[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        if group.permitting:
            return denies
        if denies:
            group.denied_by.add(node_id)
            self.read += 1
        elif node_id in group.denied_by:
            self._stage.unexpected.append(f"broker {node_id} permits {group.name}, which it has denied before")
        elif was_denied and node_id == min(self._brokers):
            self._stage.unexpected.append(f"the controller permits {group.name}, whose ACL is acknowledged")
        return denies

    def _dialer(self, node_id: int) -> Dialer:
        name = self.host_of_client(node_id)
        return Dialer(self._stage.net(name), name, self._brokers[node_id], [], self._stage.dice(f"dialer of {name}"))


async def deny(connection: SimConnection, group: str) -> None:
    """Create an ACL of another principal. Raise Again for an error that may pass."""
    acl = AclCreation(GROUP, group, LITERAL, "User:other", "*", READ, ALLOW)
    answer = await connection.ask(CreateAclsRequest([acl]), connection.any_version(ApiKey.CREATE_ACLS))
    require(answer.results[0].error_code)


async def permit(connection: SimConnection, group: str) -> None:
    """Delete the ACL, if it exists. Raise Again for an error that may pass."""
    wanted = DeleteAclsFilter(GROUP, group, LITERAL, None, None, ANY, ANY)
    answer = await connection.ask(DeleteAclsRequest([wanted]), connection.any_version(ApiKey.DELETE_ACLS))
    require(answer.filter_results[0].error_code)
