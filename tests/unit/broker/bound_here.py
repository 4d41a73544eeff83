"""A bound address without a socket."""

from __future__ import annotations

from pykbroker.world.net import Accept, Tls


class BoundHere:
    """A bound address that notes whether it listens. It matches `world.net.Bound`."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.listens = self.is_closed = False

    def listen(self, accept: Accept, tls: Tls | None = None) -> None:
        self.listens = True

    def close(self) -> None:
        self.is_closed = True
