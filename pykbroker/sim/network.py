"""A simulated network between named hosts.

Segments are delayed, lost and retransmitted, and links are cut in one or both directions. As TCP guarantees, the bytes
of a connection arrive in order, if they arrive.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from zlib import crc32

from pykbroker.sim.endpoint import HostPort, SimEndpoint, broken, ignore
from pykbroker.sim.process import Process
from pykbroker.sim.retransmission import RETRANSMIT_S, Link, Retransmission, there_of
from pykbroker.sim.simulation import Simulation

LOSSES_MAX = 6
DISTANCE = 10
"""The factor by which a segment between distant hosts takes longer."""
LATE = 50
"""The factor by which a delayed segment takes longer."""
FIRST_PORT = 40_000


@dataclass(slots=True)
class NetFaults:
    """The current faults of the network: chances from 0 to 1 for each segment, and times in seconds."""

    delay_s: float = 0.0005
    late: float = 0.01
    lost: float = 0.0
    reset: float = 0.0
    short: float = 0.1
    """The chance that a read or write moves only a part."""
    happened: dict[str, int] = field(default_factory=dict)

    def count(self, kind: str) -> None:
        self.happened[kind] = self.happened.get(kind, 0) + 1


class Backlog:
    """A bound address. Once its process listens, connections wait in it until they are accepted."""

    writable = failed = False

    def __init__(self, number: int, process: Process, address: HostPort) -> None:
        self.number, self.process, self.address = number, process, address
        self.notice: Callable[[], None] = ignore
        self.listens = self.ends_silent = False
        self.waiting: deque[SimEndpoint] = deque()

    @property
    def readable(self) -> bool:
        """Whether a connection waits to be accepted."""
        return bool(self.waiting)


class Network:
    """The network of all hosts of a simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self.faults = NetFaults()
        self._simulation, self._clock = simulation, simulation.clock
        self._dice = simulation.dice("network")
        self._endpoints: dict[int, SimEndpoint] = {}
        self._made = 0
        self._port = FIRST_PORT
        self._backlogs: dict[HostPort, Backlog] = {}
        self._cut: dict[Link, None] = {}
        self._down: dict[str, None] = {}
        self.distant: frozenset[str] = frozenset()
        """The hosts that are far from each other, but not from all others."""
        self._queued: dict[Link, list[tuple[SimEndpoint, int]]] = {}
        self._kernels = Retransmission(simulation.clock, self._is_cut, lambda kind: self.faults.count(kind))

    # ---- connections

    def bind(self, process: Process, address: HostPort) -> Backlog:
        """Bind an address. Port 0 selects a free port.

        Raise OSError (EADDRINUSE) if another process has bound the address.
        """
        backlog = Backlog(self._number(), process, (address[0], address[1] or self._free_port()))
        if backlog.address in self._backlogs:
            raise broken(errno.EADDRINUSE)
        self._backlogs[backlog.address] = backlog
        return backlog

    def unlisten(self, backlog: Backlog) -> None:
        """Refuse the connections in the backlog."""
        if self._backlogs.get(backlog.address) is backlog:
            del self._backlogs[backlog.address]
        for endpoint in backlog.waiting:
            endpoint.end(reset=True)
        backlog.waiting.clear()

    def begin_connect(self, process: Process, host: str, remote: HostPort) -> SimEndpoint:
        """Start to connect, and return the client's endpoint.

        The endpoint's `notice` is called when the connection is open or has failed.
        """
        ours = self._endpoint(process, (host, self._free_port()), remote)
        self._send_word((host, remote[0]), lambda: self._syn(ours))
        return ours

    def _syn(self, ours: SimEndpoint) -> None:
        if ours.closed:
            return
        backlog = self._backlogs.get(ours.remote)
        if backlog is None or not backlog.listens:
            self._send_word((ours.remote[0], ours.local[0]), lambda: ours.fail(errno.ECONNREFUSED))
            return
        theirs = self._endpoint(backlog.process, ours.remote, ours.local)
        theirs.peer, theirs.ends_silent = ours, backlog.ends_silent
        backlog.waiting.append(theirs)
        backlog.notice()
        self._send_word((ours.remote[0], ours.local[0]), lambda: self._establish(ours, theirs))

    def _establish(self, ours: SimEndpoint, theirs: SimEndpoint) -> None:
        ours.peer = theirs
        if ours.closed:
            self.refuse(ours)
        ours.notice()

    def _endpoint(self, process: Process, local: HostPort, remote: HostPort) -> SimEndpoint:
        self._endpoints = {each.number: each for each in self._endpoints.values() if not each.closed}
        endpoint = SimEndpoint(self, self._number(), process, local, remote)
        self._endpoints[endpoint.number] = endpoint
        return endpoint

    def _number(self) -> int:
        self._made += 1
        return self._made

    def _free_port(self) -> int:
        self._port += 1
        return self._port

    # ---- segments: matches `endpoint.Path`

    def cut_short(self, size: int) -> int:
        """Return how many bytes a single read or write moves. The number is sometimes smaller than possible."""
        return self._dice.randrange(1, size) if size > 1 and self._dice.random() < self.faults.short else size

    def post(self, sender: SimEndpoint) -> None:
        """Send an endpoint's newest segment."""
        if self.faults.reset and self._dice.random() < self.faults.reset:
            self.faults.count("reset")
            self.refuse(sender)
            sender.fail(errno.ECONNRESET)
            return
        sender.arrives_s = max(sender.arrives_s, self._clock.now + self._delay_s(there_of(sender)))
        self._clock.call_at(sender.arrives_s, self._arrive, sender, sender.sent)

    def refuse(self, endpoint: SimEndpoint) -> None:
        """Reset the connection at its peer. A reset that is lost is not sent again."""
        if endpoint.peer is not None:
            link = there_of(endpoint)
            self._clock.call_later(self._delay_s(link), self._reset, link, endpoint.peer)

    def _reset(self, link: Link, peer: SimEndpoint) -> None:
        if self._is_cut(link):
            self.faults.count("lost reset")
            self._kernels.reset_lost(peer)
        else:
            peer.fail(errno.ECONNRESET)

    def trace(self, endpoint: SimEndpoint, segment: bytes) -> None:
        self._simulation.trace(endpoint.remote, endpoint.local, len(segment), crc32(segment))

    def _send_word(self, link: Link, deliver: Callable[[], None]) -> None:
        self._clock.call_later(self._delay_s(link), self._kernels.word_due, link, deliver)

    def _delay_s(self, link: Link) -> float:
        faults, dice = self.faults, self._dice
        delay_s = faults.delay_s * (0.5 + dice.random())
        distance_s = delay_s * DISTANCE if self.distant.issuperset(link) else 0.0
        if dice.random() < faults.late:
            faults.count("late")
            delay_s *= LATE
        for losses in range(LOSSES_MAX):
            if dice.random() >= faults.lost:
                break
            faults.count("lost")
            delay_s += RETRANSMIT_S * 2**losses
        return delay_s + distance_s

    def _arrive(self, sender: SimEndpoint, number: int) -> None:
        queue = self._queued.get(there_of(sender))
        if queue is None:
            self._kernels.segment_due(sender, number)
        else:
            self.faults.count("queued")
            queue.append((sender, number))

    # ---- faults

    def cut(self, source: str, target: str) -> None:
        """Drop all segments from `source` to `target`. The opposite direction is another link."""
        self._cut[source, target] = None
        self._kernels.cut_began([*self.ends(source, peer=target), *self.ends(target, peer=source)])

    def queue(self, source: str, target: str) -> None:
        """Let all segments of connections from `source` to `target` wait for `heal`, without losing one."""
        self._queued.setdefault((source, target), [])

    def ends(self, host: str, port: int = 0, peer: str = "") -> list[SimEndpoint]:
        """Return the open ends of connections on a host: all, or those of its `port` whose peer is another host."""
        return [
            each
            for each in self._endpoints.values()
            if each.local[0] == host and port in (0, each.local[1]) and peer in ("", each.remote[0]) and not each.closed
        ]

    def heal(self, *links: Link) -> None:
        """Repair these links, or all links if none is given."""
        for link in links or list(self._cut):
            self._cut.pop(link, None)
        for link in links or list(self._queued):
            for sender, number in self._queued.pop(link, []):
                self._clock.call_later(self._dice.random() * RETRANSMIT_S, self._arrive, sender, number)

    def kill(self, process: Process) -> None:
        """Close the connections and listeners of a killed process whose host still runs."""
        for backlog in [each for each in self._backlogs.values() if each.process is process]:
            self.unlisten(backlog)
        for endpoint in self._endpoints.values():
            if endpoint.process is process:
                endpoint.end(reset=self._dice.random() < 0.5)

    def host_down(self, host: str) -> None:
        """Cut the power of a host. Its connections are dropped without notice to the peers."""
        self._down[host] = None
        for backlog in [each for each in self._backlogs.values() if each.address[0] == host]:
            del self._backlogs[backlog.address]
        for endpoint in self._endpoints.values():
            if endpoint.local[0] == host:
                endpoint.vanish()
        self._kernels.cut_began([each for each in self._endpoints.values() if each.remote[0] == host])

    def host_up(self, host: str) -> None:
        """Start a host again. It responds with a reset to segments of its former connections."""
        self._down.pop(host, None)

    def _is_cut(self, link: Link) -> bool:
        return link in self._cut or link[0] in self._down or link[1] in self._down
