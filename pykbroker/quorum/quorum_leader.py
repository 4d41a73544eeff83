"""The active controller, which is the leader of the metadata log, as an observer last found it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from pykbroker.core.address import Address

NOBODY = -1


class QuorumLeader:
    """The leader of the quorum. `address` is None while it is unknown.

    A search asks the addresses in `servers` in turn, beginning with the first one.
    """

    def __init__(self, servers: Sequence[Address], epoch: int = 0) -> None:
        self._servers, self._next = tuple(servers), 0
        self.leader_id, self.epoch = NOBODY, epoch
        self.address: Address | None = None
        self._found = trio.Event()
        self._at_new_epoch: list[Callable[[], None]] = []

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
        for function in self._at_new_epoch if is_newer else ():
            function()

    def lost(self, address: Address) -> None:
        """Forget the leader if this is its address: a connection to it failed, or another controller is active."""
        if self.address == address:
            self.address, self._found = None, trio.Event()

    async def wait(self) -> Address:
        """Wait until the leader is known, and return its address."""
        while self.address is None:
            await self._found.wait()
        return self.address
