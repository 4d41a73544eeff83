"""The active controller, which is the leader of the metadata log, as an observer last found it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf

import trio

from pykbroker.client.errors import is_refusal
from pykbroker.core.address import Address
from wire.sentinels import NO_LEADER


class QuorumLeader:
    """The leader of the quorum. `address` is None while it is unknown.

    A search asks the addresses in `servers` in turn, beginning with the first one.
    """

    def __init__(self, servers: Sequence[Address]) -> None:
        self._servers, self._next = tuple(servers), 0
        self.leader_id, self.epoch = NO_LEADER, 0
        self.address: Address | None = None
        self._found = trio.Event()
        self._at_new_epoch: list[Callable[[], None]] = []
        self._refusing: set[Address] = set()
        self._refused_since = inf
        """The time of trio's clock since which every server has refused each connection, or inf."""
        self._refused = trio.Event()

    def call_at_new_epoch(self, function: Callable[[], None]) -> None:
        """Call a function whenever a newer epoch is found."""
        self._at_new_epoch.append(function)

    def candidate(self) -> Address:
        """Return the address to ask next: that of the leader, or else the next one of the search."""
        if self.address is not None:
            return self.address
        address = self._servers[self._next % len(self._servers)]
        self._next += 1
        return address

    def found(self, leader_id: int, epoch: int, address: Address) -> None:
        """Note the leader of an epoch, unless a newer epoch is known."""
        if epoch < self.epoch:
            return
        is_newer = epoch > self.epoch
        self.leader_id, self.epoch, self.address = leader_id, epoch, address
        self._found.set()
        self._answers(self._servers)
        for function in self._at_new_epoch if is_newer else ():
            function()

    def lost(self, address: Address) -> None:
        """Forget the leader if this is its address: a connection to it failed, or another controller is active."""
        if self.address == address:
            self.address, self._found = None, trio.Event()

    def note_failure(self, address: Address, failure: BaseException) -> None:
        """Note why a connection to one of the servers could not be opened, or has ended."""
        if not is_refusal(failure):
            self._answers((address,))
            return
        self._refusing.add(address)
        if self._refused_since == inf and self._refusing.issuperset(self._servers):
            self._refused_since = trio.current_time()
            self._refused.set()

    def _answers(self, addresses: Iterable[Address]) -> None:
        self._refusing.difference_update(addresses)
        self._refused_since = inf
        if self._refused.is_set():
            self._refused = trio.Event()

    async def wait_refused(self, seconds: float) -> None:
        """Wait until every server has refused connections for so many seconds from now on."""
        begun = trio.current_time()
        while True:
            await self._refused.wait()
            since = self._refused_since
            await trio.sleep_until(max(begun, since) + seconds)
            if self._refused_since == since:
                return

    async def wait(self) -> Address:
        """Wait until the leader is known, and return its address."""
        while self.address is None:
            await self._found.wait()
        return self.address
