"""The network seam: who is connected, and the shape of what moves bytes.

1. A connection is sans-I/O: the pump gives it bytes and sends what stands in its `out`.
2. A pump belongs to one connection. It calls downwards only what `ConnectionMachine` names; a connection
   that has new output, or wants input again, outside a call of its pump says so with `Pump.flush`.
3. Every ready connection gets one turn in a pass of the loop; one that has more to do waits for the next.
4. Nothing here knows Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pykbroker.world.disk import Buffer, FileSlice

STEP_NS_SLOW = 20_000_000
"""A step of the loop that takes longer keeps the other tasks waiting noticeably, and is counted."""


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
        """Send what stands in `ConnectionMachine.out`, and look again at `ConnectionMachine.wants_input`."""

    def close(self) -> None:
        """Close the socket; the connection's `closed` is called once."""


class ConnectionMachine(Protocol):
    """Bytes in, replies out, in request order."""

    out: list[Buffer | FileSlice]
    """Ready to be sent; the pump empties it."""
    ended: bool
    """True: the pump sends what stands in `out`, as far as it goes at once, and closes."""
    room: memoryview | None
    """Where the next bytes belong while a large frame is incomplete; else None."""
    behind: bool
    """True: bytes taken earlier wait to be handled; the pump calls `resume` in the next pass, once `out` is sent."""

    @property
    def wants_input(self) -> bool:
        """False: the pump leaves what the peer sends in the kernel."""

    def received(self, data: bytes) -> None:
        """Take bytes read while `room` is None."""

    def filled(self, size: int) -> None:
        """Take `size` bytes that the pump wrote into `room`."""

    def resume(self) -> None:
        """Go on with bytes taken earlier."""

    def owes(self, size: int, kept_bytes: int) -> None:
        """The peer takes no more, or some more: so many bytes are still to be sent, `kept_bytes` of them in memory."""

    def closed(self) -> None:
        """The pump's last call: the peer is gone or the connection was closed."""


class Accept(Protocol):
    """Makes connections of peers."""

    def has_room(self) -> bool:
        """False: peers wait in the backlog, and are looked at again a little later."""

    def rests(self) -> None:
        """Told when somebody waits for room."""

    def __call__(self, peer: Peer, pump: Pump) -> ConnectionMachine | None:
        """The connection of a new peer; None refuses it."""


@dataclass(frozen=True, slots=True)
class SocketOptions:
    """What the kernel keeps for a listening socket and its connections. Sizes in bytes, -1 for the kernel's own."""

    backlog: int = 50
    """Peers that may wait to be accepted."""
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1


@dataclass(frozen=True, slots=True)
class NetStatistics:
    """A step is what the loop does between two waits, for connections and all else."""

    steps: int
    steps_slow: int
    """Those that took longer than `STEP_NS_SLOW`."""
    step_ns: int
    """All of them together."""
    step_ns_longest: int
    idle_ns: int
    """Time in which the loop waited, and nothing could be done."""


class Bound(Protocol):
    """An address that this broker has taken. Until `listen`, peers that connect there are refused."""

    host: str
    port: int

    def listen(self) -> None:
        """Let peers connect from now on; they wait in the backlog until `Net.run` runs. OSError: it is refused."""

    def close(self) -> None:
        """Stop accepting. Connections live on."""


class Net(Protocol):
    """The network of one broker."""

    def bind(self, host: str, port: int, options: SocketOptions, /) -> Bound:
        """Take an address now (port 0: any free one); OSError where that fails."""

    async def addresses(self, host: str, /) -> tuple[str, ...]:
        """All addresses of a host; OSError where it has none, or nobody can say."""

    async def run(self, accept: Accept) -> None:
        """Accept peers and pump all connections until cancelled, then close them."""

    def statistics(self) -> NetStatistics:
        """Since the start."""
