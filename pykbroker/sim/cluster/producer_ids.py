"""The producer ids that the brokers of a cluster have handed out. No id belongs to two producers."""

from __future__ import annotations

import trio

from pykbroker.sim.client import LOST, Dialer
from wire.messages.init_producer_id import InitProducerIdRequest

VERSION = 4
ASKS_MAX = 5
"""The maximum number of requests in a session, so that many brokers are asked."""
THINK_S = 0.4


class IssuedProducerIds:
    """The owner of each producer id. `unexpected` gets a finding if an id has two owners."""

    def __init__(self, unexpected: list[str]) -> None:
        self._unexpected = unexpected
        self._owners: dict[int, str] = {}
        self._count = 0

    def note(self, transactional_id: str | None, producer_id: int) -> None:
        """Record that a broker handed out an id. An id without a transactional id is handed out once."""
        self._count += 1
        owner = f"the transactional id {transactional_id}" if transactional_id else f"producer {self._count}"
        before = self._owners.setdefault(producer_id, owner)
        if before != owner:
            self._unexpected.append(f"producer id {producer_id} was handed out twice: to {before} and to {owner}")


async def ask_for_producer_ids(dialer: Dialer) -> None:
    """Ask random brokers for producer ids until cancelled. The connection records the answers."""
    while True:
        try:
            async with dialer.connected() as connection:
                for _ in range(dialer.dice.randrange(1, ASKS_MAX + 1)):
                    await connection.ask(InitProducerIdRequest(transactional_id=None), VERSION)
                    await trio.sleep(dialer.dice.expovariate(1 / THINK_S))
        except LOST:
            continue
