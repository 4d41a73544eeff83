"""The network seam: who is connected, and the shape of what moves bytes.

1. A connection is sans-I/O: the pump gives it bytes and sends what stands in its `out`.
2. A pump belongs to one connection. It calls downwards only what `Connection` names; a connection
   that has new output outside a call of its pump says so with `Pump.flush`.
3. Nothing here knows Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pykbroker.world.disk import Buffer, FileSlice


@dataclass(frozen=True, slots=True)
class Peer:
    """Both ends of an accepted connection; ports are TCP ports."""

    host: str
    port: int
    local_host: str
    local_port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Pump(Protocol):
    """Moves the bytes of one connection."""

    def flush(self) -> None:
        """Send what stands in `Connection.out`, and look again at `Connection.wants_input`."""

    def close(self) -> None:
        """Close the socket; the connection's `closed` is called once."""


class Connection(Protocol):
    """Bytes in, replies out, in request order."""

    out: list[Buffer | FileSlice]
    """Ready to be sent; the pump empties it."""
    ended: bool
    """True: the pump sends what stands in `out`, as far as it goes at once, and closes."""
    room: memoryview | None
    """Where the next bytes belong while a large frame is incomplete; else None."""

    @property
    def wants_input(self) -> bool:
        """False: the pump leaves what the peer sends in the kernel."""

    def received(self, data: bytes) -> None:
        """Take bytes read while `room` is None."""

    def filled(self, size: int) -> None:
        """Take `size` bytes that the pump wrote into `room`."""

    def resume(self) -> bool:
        """`out` is empty again: go on with bytes taken earlier. True: something was handled."""

    def closed(self) -> None:
        """The pump's last call: the peer is gone or the connection was closed."""


Accept = Callable[[Peer, Pump], Connection | None]
"""Makes the connection of a new peer; None refuses it."""


class Bound(Protocol):
    """A listening socket."""

    host: str
    port: int

    def close(self) -> None:
        """Stop accepting. Connections live on."""


class Net(Protocol):
    """The network of one broker."""

    def listen(self, host: str, port: int) -> Bound:
        """Bind now (port 0: any free one); OSError where that fails. Peers wait in the backlog until `run` runs."""

    async def run(self, accept: Accept) -> None:
        """Accept peers and pump all connections until cancelled, then close them."""
