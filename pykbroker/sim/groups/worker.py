"""A client that is a member of a group. It commits and fetches offsets, and sometimes pauses or leaves."""

from __future__ import annotations

import trio

from pykbroker.sim.client import LOST, Dialer, SimConnection
from pykbroker.sim.groups.history import Commit, GroupHistory
from pykbroker.sim.groups.member import SESSION_S, SimMember
from pykbroker.sim.groups.offsets import commit_offsets, fetch_offsets
from pykbroker.sim.groups.refusal import Evicted
from pykbroker.sim.history import Place
from wire.error_codes import ErrorCode

THINK_S, THINK_S_MAX = 0.2, 1.0
GONE, SILENT = 0.02, 0.03
"""The chance that a member leaves, and the chance that it pauses without heartbeats."""
AWAY_S_MAX = 2 * SESSION_S


class SimWorker:
    """A client that runs a member of a group. While `calm` is true, it never leaves the group and never pauses."""

    def __init__(self, member: SimMember, dialer: Dialer, history: GroupHistory) -> None:
        self.member, self._dialer, self._dice, self._history = member, dialer, dialer.dice, history
        self._marks = 0
        self.calm = False

    async def run(self) -> None:
        """Run the member until cancelled."""
        while True:
            try:
                async with self._dialer.connected() as connection:
                    await self._session(connection)
                await trio.sleep(self._dice.uniform(0, AWAY_S_MAX))
            except Evicted as evicted:
                self._judge(evicted.code)
                self.member.forget(forgotten=evicted.forgotten)
            except LOST:
                continue

    def _judge(self, code: ErrorCode) -> None:
        """Report a finding if the coordinator has removed the member for no reason.

        A reason is that its session had expired or that it had left.
        """
        member = self.member
        if code is ErrorCode.UNKNOWN_MEMBER_ID and trio.current_time() < member.lives_until_s:
            self._history.unexpected.append(
                f"{member.name} of {member.group} was dropped, though its session goes on"
                f" until {member.lives_until_s:.3f} s"
            )

    async def _session(self, connection: SimConnection) -> None:
        """Join, then commit, fetch and send heartbeats until the member leaves. Raise Evicted or an error of LOST."""
        member, dice = self.member, self._dice
        await member.enter(connection)
        known = await self._fetch(connection)
        while True:
            await trio.sleep(min(dice.expovariate(1 / THINK_S), THINK_S_MAX))
            draw = dice.random()
            if draw < GONE and not self.calm:
                await member.leave(connection)
                return
            if draw < GONE + SILENT and not self.calm:
                return
            if draw < 0.4:
                await member.beat(connection)
            elif draw < 0.6:
                known |= await self._fetch(connection)
            elif member.owned:
                await self._commit(connection, known)

    async def _fetch(self, connection: SimConnection) -> dict[Place, int]:
        member = self.member
        return await fetch_offsets(
            connection,
            self._history,
            member.name,
            member.group,
            member.owned,
            stable=self._dice.random() < 0.5,
            who=member.identity,
        )

    async def _commit(self, connection: SimConnection, known: dict[Place, int]) -> None:
        member = self.member
        places = sorted(self._dice.sample(member.owned, self._dice.randrange(1, len(member.owned) + 1)))
        commits = []
        for place in places:
            known[place] = max(known.get(place, 0), 0) + self._dice.randrange(1, 10)
            self._marks += 1
            commits.append(
                Commit(
                    member.group,
                    place,
                    known[place],
                    f"{member.name}/{self._marks}",
                    trio.current_time(),
                    generation=member.identity.generation,
                )
            )
        await commit_offsets(connection, self._history, commits, member.identity)
