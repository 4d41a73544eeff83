"""The network seam: connections without I/O, and the pumps that move their bytes.

1. A connection is sans-I/O: its pump hands it received bytes and sends the contents of its `out`. Accepted and outgoing
   connections have the same interface and share one poller.
2. A pump serves one connection and calls only the methods of `ConnectionMachine`. A connection calls `Pump.flush`
   when it gets output, or wants input again, outside a call of its pump.
3. Each ready connection gets one turn in a pass of the loop; a connection with more to do waits for the next pass.
4. Nothing here knows Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from pykbroker.world.disk import Buffer, FileSlice

STEP_NS_SLOW = 20_000_000
"""A longer step of the loop delays the other tasks noticeably, and is counted as slow."""


class Peer(msgspec.Struct, frozen=True):
    """Both ends of a connection. Ports are TCP ports."""

    host: str
    port: int
    local_host: str
    local_port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Pump(Protocol):
    """The mover of one connection's bytes."""

    def flush(self) -> None:
        """Send `ConnectionMachine.out`, and check `ConnectionMachine.wants_input` again."""

    def close(self) -> None:
        """Close the socket. The connection's `closed` is called once."""


class ConnectionMachine(Protocol):
    """A sans-I/O connection: takes received bytes, and puts bytes to send into `out`."""

    out: list[Buffer | FileSlice]
    """Bytes that can be sent now. The pump empties the list."""
    ended: bool
    """True asks the pump to send as much of `out` as the socket takes at once, and to close."""
    room: memoryview | None
    """The buffer for the next bytes while a large frame is incomplete, else None."""
    wants_turn: bool
    """True while received bytes wait to be handled. The pump calls `resume` in the next pass, once `out` is sent."""

    @property
    def wants_input(self) -> bool:
        """Whether the pump should read. Otherwise the peer's bytes stay in the kernel."""

    def received(self, data: bytes) -> None:
        """Take bytes that were read while `room` was None."""

    def filled(self, size: int) -> None:
        """Take the `size` bytes that the pump has written into `room`."""

    def resume(self) -> None:
        """Handle bytes that were received earlier."""

    def unsent(self, size: int, kept_bytes: int) -> None:
        """Note that `size` bytes of `out` are unsent, `kept_bytes` of them in memory. (0, 0): none are left."""

    def closed(self) -> None:
        """Note that the connection is closed, by either side. The pump calls nothing after it."""


C = TypeVar("C", bound=ConnectionMachine)


class Accept(Protocol):
    """The maker of connections for accepted peers."""

    def has_room(self) -> bool:
        """Whether another peer may be accepted now. Otherwise peers wait in the backlog and accepting pauses."""

    def paused(self) -> None:
        """Note that accepting pauses because there is no room."""

    def __call__(self, peer: Peer, pump: Pump) -> ConnectionMachine | None:
        """Return the connection of a new peer, or None to refuse it."""


class SocketOptions(msgspec.Struct, frozen=True):
    """Kernel settings of a listening socket and its connections. Sizes are in bytes; -1 keeps the kernel's default."""

    backlog: int = 50
    """The number of peers that may wait to be accepted."""
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1


class NetStatistics(msgspec.Struct, frozen=True):
    """Counters of the event loop. A step is the work of all tasks between two waits."""

    steps: int
    steps_slow: int
    """Steps that took longer than `STEP_NS_SLOW`."""
    step_ns: int
    """The duration of all steps."""
    step_ns_longest: int
    idle_ns: int
    """The time that the loop spent waiting with nothing to do."""


class Bound(Protocol):
    """An address that this broker has bound. Peers that connect before `listen` are refused."""

    host: str
    port: int

    def listen(self, accept: Accept) -> None:
        """Let peers connect; `accept` gets them. They wait in the backlog until `Net.run` runs.

        OSError: the kernel refuses.
        """

    def close(self) -> None:
        """Stop accepting. Open connections stay open."""


class Net(Protocol):
    """The network of one broker."""

    def bind(self, host: str, port: int, options: SocketOptions, /) -> Bound:
        """Bind an address; port 0 selects any free one. OSError: it cannot be bound."""

    async def connect(self, host: str, port: int, open_connection: Callable[[Peer, Pump], C], /) -> C:
        """Connect to a peer and return the connection that `open_connection` makes. `run` moves its bytes.

        OSError: the host is unknown, or no peer listens there. The caller sets the deadline.
        """

    async def addresses(self, host: str, /) -> tuple[str, ...]:
        """Return all addresses of a host. OSError: it cannot be resolved."""

    async def run(self) -> None:
        """Accept peers and pump all connections until cancelled, then close them."""

    def statistics(self) -> NetStatistics:
        """Return the counters since the start."""
