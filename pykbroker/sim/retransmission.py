"""The kernels of simulated hosts while a network loses segments: retransmission, give-up and keep-alives, as in Linux.

1. An end whose segment, or whose peer's acknowledgement, is lost retransmits after 0.2 s, and then at intervals that
   double, up to 120 s. After its first retransmission it sends nothing new until one is acknowledged.
2. An end whose segments are not acknowledged fails after 15 minutes, or after 6 s if it watches for silence: the real
   watch looks once in a second.
3. An end that watches for silence also fails if its peer acknowledges no keep-alive for 5 s, or refuses one. While
   segments are not acknowledged, the kernel sends none.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable

from pykbroker.sim.clock import VirtualClock
from pykbroker.sim.endpoint import SimEndpoint
from pykbroker.world.system_silence import KEEP_ALIVE_IDLE_S, LOOK_S, SILENT_S_MAX

RETRANSMIT_S, RETRANSMIT_S_MAX = 0.2, 120.0
"""The time after which a segment is sent again, and its maximum: the time doubles at each retransmission."""
SYN_AGAIN_S = 1.0
"""The time after which a SYN is sent again. It doubles, too."""
GIVE_UP_S = 924.6
"""The time after which a connection without an acknowledgement fails, if it does not watch for silence."""
Link = tuple[str, str]


def there_of(end: SimEndpoint) -> Link:
    """Return the link on which an end sends."""
    return end.local[0], end.remote[0]


class Retransmission:
    """The retransmissions of all ends. `is_cut` returns whether a link loses everything; `count` counts a fault."""

    def __init__(self, clock: VirtualClock, is_cut: Callable[[Link], bool], count: Callable[[str], None]) -> None:
        self._clock, self._is_cut, self._count = clock, is_cut, count

    def segment_due(self, sender: SimEndpoint, number: int) -> None:
        """Deliver the segments of an end up to this number, or let them wait for a retransmission."""
        sender.due = max(sender.due, number)
        if not sender.backs_off:
            self._transmit(sender)

    def word_due(self, link: Link, deliver: Callable[[], None], again_s: float = SYN_AGAIN_S) -> None:
        """Deliver a segment that opens a connection. If it is lost, send it again after `again_s`."""
        if self._is_cut(link):
            self._count("lost syn")
            self._clock.call_later(again_s, self.word_due, link, deliver, min(2 * again_s, RETRANSMIT_S_MAX))
        else:
            deliver()

    def cut_began(self, ends: Iterable[SimEndpoint]) -> None:
        """Let the ends of a link that is cut notice it by their keep-alives, if they watch for silence."""
        for end in ends:
            if end.ends_silent:
                end.silent_since = self._clock.now
                self._clock.call_later(SILENT_S_MAX, self.probe, end, self._clock.now)

    def probe(self, end: SimEndpoint, since_s: float) -> None:
        """Fail an end that has been silent since this time, or whose peer's host has closed the connection."""
        if end.closed or end.failed or end.peer is None or end.silent_since != since_s:
            return
        if self._loses(end):
            if self._clock.now >= since_s + SILENT_S_MAX and end.unacknowledged_since is None:
                self._fail(end)
        elif end.peer.closed and not end.peer.has_unsent:
            end.fail(errno.ECONNRESET)

    def reset_lost(self, end: SimEndpoint) -> None:
        """Let an end to which a reset was lost notice by its keep-alives, once the network works, that it is closed."""
        if end.ends_silent and not (end.closed or end.failed):
            if self._loses(end):
                self._clock.call_later(KEEP_ALIVE_IDLE_S, self.reset_lost, end)
            else:
                end.fail(errno.ECONNRESET)

    def _loses(self, end: SimEndpoint) -> bool:
        """Whether an end gets no acknowledgements: segments are lost on the way there, or on the way back."""
        source, target = there_of(end)
        return self._is_cut((source, target)) or self._is_cut((target, source))

    def _transmit(self, sender: SimEndpoint) -> None:
        if not self._is_cut(there_of(sender)):
            while sender.arrived < sender.due:
                sender.arrive()
        if self._loses(sender) and sender.unacknowledged_since is None:
            self._count("held")
            sender.unacknowledged_since = now = self._clock.now
            self._clock.call_later(RETRANSMIT_S, self._retransmit, sender, now, RETRANSMIT_S)
            give_up_s = SILENT_S_MAX + LOOK_S if sender.ends_silent else GIVE_UP_S
            self._clock.call_later(give_up_s, self._give_up, sender, now)

    def _retransmit(self, sender: SimEndpoint, since_s: float, after_s: float) -> None:
        """Send the oldest segment again, and all others once it is acknowledged."""
        if sender.unacknowledged_since != since_s or sender.failed or (sender.closed and not sender.has_unsent):
            return
        if self._loses(sender):
            if not self._is_cut(there_of(sender)) and sender.arrived < sender.due:
                sender.arrive()
            sender.backs_off = True
            after_s = min(2 * after_s, RETRANSMIT_S_MAX)
            self._clock.call_later(after_s, self._retransmit, sender, since_s, after_s)
        else:
            sender.backs_off, sender.unacknowledged_since = False, None
            self._transmit(sender)

    def _give_up(self, sender: SimEndpoint, since_s: float) -> None:
        if sender.unacknowledged_since == since_s:
            self._fail(sender)

    def _fail(self, end: SimEndpoint) -> None:
        self._count("gave up")
        end.fail(errno.ETIMEDOUT)
