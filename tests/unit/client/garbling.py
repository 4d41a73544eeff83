"""A network in memory that changes bytes of the brokers' answers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from pykbroker.world.net import Tls
from tests.unit.client.loopback import LoopbackNet

SIZE_BYTES = 4
"""The bytes of the size in front of a response."""
KEPT_BYTES = SIZE_BYTES + 4 + 1 + 4
"""The bytes of size, correlation id, tagged fields and throttle time, which are kept."""
BYTES = (0, 1, 127, 128, 255)


class GarblingNet(LoopbackNet):
    """A network that changes bytes of some answers while `is_garbling` is true.

    `share` is the share of the answers that are changed. Answers to ApiVersions, sizes, correlation ids and throttle
    times are kept: most changed answers then reach the code that handles them, and none stops a client for days.
    """

    def __init__(self, dice: Random, share: float = 0.3) -> None:
        super().__init__()
        self._dice, self._share = dice, share
        self.is_garbling, self.garbled = False, 0

    async def connect(
        self,
        host: str,
        port: int,
        open_connection: Callable[..., Any],
        receive_buffer_bytes: int = -1,
        tls: Tls | None = None,
    ) -> Any:
        connection = await super().connect(host, port, open_connection, receive_buffer_bytes)
        receive = self.pumps[-1].take
        self.pumps[-1].take = lambda data: receive(self._garble(data))  # type: ignore[method-assign]
        return connection

    def _garble(self, data: bytes) -> bytes:
        """Change some of the whole responses that `data` has."""
        changed, start = bytearray(data), 0
        while self.is_garbling and start + SIZE_BYTES < len(data):
            end = start + SIZE_BYTES + int.from_bytes(data[start : start + SIZE_BYTES], "big")
            is_negotiation = not any(data[start + SIZE_BYTES : start + 8])
            if (
                KEPT_BYTES < end - start <= len(data) - start
                and not is_negotiation
                and self._dice.random() < self._share
            ):
                self.garbled += 1
                for _ in range(self._dice.choice((1, 1, 1, 3))):
                    place = self._dice.randrange(start + KEPT_BYTES, end)
                    changed[place] = self._dice.choice((*BYTES, self._dice.randrange(256)))
            start = end
        return bytes(changed)
