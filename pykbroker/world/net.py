"""The network seam: connections without I/O, and the pumps that move their bytes.

1. A connection is sans-I/O. Its pump passes received bytes to it, and sends the contents of its `out`. Accepted and
   outgoing connections have the same interface and share one poller.
2. A pump serves one connection and calls only the methods of `ConnectionMachine`. A connection calls `Pump.flush`
   when it gets output, or wants input again, outside a call of its pump.
3. Each ready connection is served once in a pass of the event loop (its turn). A connection with more to do waits for
   the next pass.
4. The network seam does not depend on Kafka's protocol.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec

from pykbroker.world.disk import Buffer, FileSlice

STEP_NS_SLOW = 20_000_000
"""The duration above which a step of the event loop counts as slow, since it noticeably delays other tasks."""


class Peer(msgspec.Struct, frozen=True):
    """The addresses of both ends of a connection. Ports are TCP ports."""

    host: str
    port: int
    local_host: str
    local_port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Pump(Protocol):
    """An object that moves the bytes of one connection between its socket and the sans-I/O connection."""

    def flush(self) -> None:
        """Send the buffers of `ConnectionMachine.out`, and check `ConnectionMachine.wants_input` again."""

    def close(self) -> None:
        """Close the socket. The connection's `closed` is called once."""

    def end_when_silent(self) -> None:
        """Let an accepted connection end soon once its peer's machine acknowledges nothing, from now on."""

    def serve_last(self, *, last: bool) -> None:
        """Serve the connection after those of all others in each pass, or like them: strangers must not delay them."""


class ConnectionMachine(Protocol):
    """A sans-I/O connection, which takes received bytes and puts bytes to send into `out`."""

    out: list[Buffer | FileSlice]
    """Bytes that can be sent now. The pump empties the list."""
    ended: bool
    """Whether the pump must send as much of `out` as the socket takes at once, and close the connection."""
    room: memoryview | None
    """The buffer for the next bytes while a large frame is incomplete, else None."""
    wants_turn: bool
    """Whether received bytes wait to be handled. The pump calls `resume` in the next pass, once `out` is sent."""

    @property
    def wants_input(self) -> bool:
        """Whether the pump should read. Otherwise received bytes stay in the kernel."""

    def received(self, data: bytes) -> None:
        """Handle bytes that were read while `room` was None. Empty bytes mean that the peer sends nothing more.

        The connection then sets `ended`, or keeps `wants_input` false while replies are due. Afterwards the pump reads
        the end again.
        """

    def filled(self, size: int) -> None:
        """Handle the `size` bytes that the pump has written into `room`. 0 bytes mean the same as in `received`."""

    def resume(self) -> None:
        """Handle bytes that were received earlier."""

    def unsent(self, size: int, kept_bytes: int) -> None:
        """Note that `size` bytes of `out` are unsent, `kept_bytes` of them in memory.

        Both numbers are 0 once all bytes are sent.
        """

    def closed(self) -> None:
        """Note that either side has closed the connection. The pump calls no other method afterwards."""


C = TypeVar("C", bound=ConnectionMachine)


class Accept(Protocol):
    """An acceptor, which creates connections for accepted peers."""

    def has_room(self) -> bool:
        """Whether another peer may be accepted now. Otherwise accepting pauses, and peers wait in the backlog."""

    def paused(self) -> None:
        """Note that accepting pauses because there is no room."""

    def __call__(self, peer: Peer, pump: Pump) -> ConnectionMachine | None:
        """Return a connection for a new peer, or None to refuse the peer."""


class Tls(Protocol):
    """The TLS of the connections of one listener, or of outgoing ones. `connection` is what the acceptor returned."""

    def begin(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, start: bytes, /) -> ssl.SSLObject | None:
        """Return the state of TLS for a new connection, or None if more bytes of the peer have to be awaited.

        `start` has the first bytes of a peer that has connected. It is empty for an outgoing connection.
        """

    def secured(self, connection: Any, certificate: bytes | None, cipher: tuple[str, str, int], /) -> None:
        """Note that a handshake is done. `certificate` is the peer's in DER, or None. Raise OSError to disconnect.

        `cipher` has the name of the cipher suite in OpenSSL, the version of TLS, and the bits of the key.
        """

    def failed(self, connection: Any, error: ssl.SSLError, /) -> None:
        """Note that a connection ends, because its handshake failed or its peer broke a rule of TLS."""


class SocketOptions(msgspec.Struct, frozen=True):
    """Socket options of a listening socket and its connections. Sizes are in bytes; -1 keeps the kernel's default."""

    backlog: int = 50
    """The maximum number of peers that wait to be accepted."""
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    ends_silent: bool = False
    """Whether an accepted connection ends soon once its peer's machine acknowledges nothing, as outgoing ones do."""


class NetStatistics(msgspec.Struct, frozen=True):
    """Counters of the event loop. A step is the work of all tasks between two waits for I/O."""

    steps: int
    steps_slow: int
    """The number of steps that took longer than `STEP_NS_SLOW`."""
    step_ns: int
    """The total duration of all steps in ns."""
    step_ns_longest: int
    idle_ns: int
    """The total time in ns that the event loop waited for I/O."""
    idle_share: float = 1.0
    """The share of the last 30 to 60 s in which the event loop waited for I/O, from 0 to 1."""


class Bound(Protocol):
    """A bound address of this broker. The kernel refuses peers that connect before `listen`."""

    host: str
    port: int

    def listen(self, accept: Accept, tls: Tls | None = None) -> None:
        """Let peers connect. Connections wait in the backlog until `Net.run` runs and passes them to `accept`.

        With `tls`, a connection gets nothing until its handshake is done.

        Raise OSError if the kernel refuses to listen.
        """

    def close(self) -> None:
        """Stop accepting. Open connections stay open."""


class Net(Protocol):
    """The network of one broker."""

    def bind(self, host: str, port: int, options: SocketOptions, /) -> Bound:
        """Bind an address. Port 0 selects a free port. Raise OSError if the address cannot be bound."""

    async def connect(
        self,
        host: str,
        port: int,
        open_connection: Callable[[Peer, Pump], C],
        receive_buffer_bytes: int = -1,
        tls: Tls | None = None,
        /,
    ) -> C:
        """Connect to a peer and return the connection that `open_connection` creates. `run` moves its bytes.

        With `tls`, return once the handshake is done, and raise ssl.SSLError, an OSError, if it fails.

        The connection ends soon once the peer's machine acknowledges nothing, whether bytes were sent or not.
        `receive_buffer_bytes` is the size of the kernel's receive buffer; -1 keeps the kernel's own size. Raise OSError
        if the host is unknown, or no peer listens there. The caller sets the deadline.
        """

    async def addresses(self, host: str, /) -> tuple[str, ...]:
        """Return all addresses of a host. Raise OSError if the host cannot be resolved."""

    async def run(self) -> None:
        """Accept peers and move the bytes of all connections until cancelled, then close the connections."""

    def statistics(self) -> NetStatistics:
        """Return the counters since the start."""
