"""The metadata offsets up to which other brokers have applied the metadata log.

A request that changes topics or configs is answered once every unfenced broker has applied the change, so that a client
may use a new topic at any broker. The wait has a limit: a broker that hangs delays no response for long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import trio

APPLIED_S_MAX = 1.0
"""The time that a response waits for other brokers."""
OBSERVER = "pykbroker-observer-"
"""The beginning of the client id with which brokers of pykbroker fetch the metadata log."""


def observer_client_id(node_id: int) -> str:
    """Return the client id with which a broker fetches the metadata log."""
    return f"{OBSERVER}{node_id}"


def names_applied(client_id: str | None) -> bool:
    """Whether this client names as the high watermark of its fetches only what it has applied.

    Brokers of Apache Kafka name all that is committed. They report what they have applied in heartbeats.
    """
    return client_id is not None and client_id.startswith(OBSERVER)


class AppliedOffsets:
    """The newest offset that each broker reported as applied.

    `others` returns the unfenced brokers in other processes.
    """

    def __init__(self, others: Callable[[], Iterable[int]]) -> None:
        self._others = others
        self._offsets: dict[int, int] = {}
        self._waiting = trio.lowlevel.ParkingLot()

    def note(self, broker_id: int, offset: int) -> None:
        """Note that a broker has applied the metadata up to the record at `offset`."""
        if offset > self._offsets.get(broker_id, -1):
            self._offsets[broker_id] = offset
            self._waiting.unpark_all()

    def restart(self, broker_id: int) -> None:
        """Forget what an earlier process of the broker reported."""
        self._offsets.pop(broker_id, None)

    async def wait(self, offset: int) -> None:
        """Wait until all unfenced brokers have applied the record at `offset`, at most `APPLIED_S_MAX`."""
        with trio.move_on_after(APPLIED_S_MAX):
            while any(self._offsets.get(broker_id, -1) < offset for broker_id in self._others()):
                await self._waiting.park()
