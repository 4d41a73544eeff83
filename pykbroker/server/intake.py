"""The half of a connection that cuts bytes into frames: one at a time, within a turn, and within the budget.

What stays between two turns: the start of a small frame in `_rest`, with frames that had no turn yet; or a large frame
in its own buffer. An idle connection has neither.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, Protocol

from pykbroker.server.budget import Budget
from pykbroker.server.ending import ConnectionEnding
from pykbroker.server.frame_pool import FramePool
from pykbroker.server.handler import CloseConnection
from pykbroker.server.large_frame import LARGE_FRAME_BYTES, TRUST, TRUST_TIGHT, LargeFrame
from pykbroker.server.table import ApiTable
from pykbroker.world.disk import Buffer, FileSlice
from pykbroker.world.net import Peer, Pump
from pykbroker.world.turns import Turns
from wire.errors import DecodeError

FRAME_BYTES_MIN = 10
OUT_PARTS_MAX = 512
"""Buffers of replies not yet sent, above which no further request is handled."""
TURN_NS_MAX = 5_000_000
"""After so long it is the next connection's turn."""

unpack_size = Struct(">i").unpack_from

logger = logging.getLogger(__name__)


class Tasks(Protocol):
    """Where a coroutine that a handler returned is run (a nursery)."""

    def start_soon(self, function: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """As trio's."""


@dataclass(slots=True)
class Shared:
    """What the connections of a listener have in common."""

    table: ApiTable
    tasks: Tasks
    turns: Turns
    budget: Budget
    request_bytes_max: int
    """Bounds a frame without its size field."""
    on_closed: Callable[[Any], None]
    """Called once with the connection."""
    pool: FramePool = field(default_factory=FramePool)
    owed_ns: int = 0
    """How long, in all, peers did not take what they were owed, as far as they have taken it by now."""


class Intake(ABC):
    """Matches `server.budget.Holder`, and the half of `world.net.Connection` that is about input. Times are ticks."""

    __slots__ = (
        "_is_held",
        "_large",
        "_owed_kept_bytes",
        "_pump",
        "_rest",
        "_shared",
        "_ticks",
        "_waits",
        "begun_at",
        "behind",
        "came_at",
        "ended",
        "ending",
        "moved_at",
        "opened_at",
        "out",
        "owed_at",
        "owed_bytes",
        "peer",
        "room",
        "wants_input",
    )

    def __init__(self, peer: Peer, pump: Pump, shared: Shared) -> None:
        self.peer, self._pump, self._shared, self._ticks = peer, pump, shared, shared.turns.ticks
        self.out: list[Buffer | FileSlice] = []
        self.room: memoryview | None = None
        self.wants_input = True
        self.ended = self.behind = False
        self.ending = ConnectionEnding.PEER
        self.opened_at = self.came_at = self.owed_at = self.moved_at = shared.turns.ticks()
        """When a byte last came or went; for the metrics also when it came, and when a debt began."""
        self.begun_at: int | None = None
        """When the frame began that is incomplete, if one is."""
        self.owed_bytes = 0
        """Of replies that the peer does not take."""
        self._owed_kept_bytes = 0
        """So many of those are in memory."""
        self._rest = b""
        self._large: LargeFrame | None = None
        self._is_held = False
        """A request is held: while it is, no other is started."""
        self._waits = False
        """For the budget."""

    @abstractmethod
    def _request(self, data: Buffer, pos: int, end: int, began_at: int) -> int:
        """Handle one request, which stands without its size in `data`. The time at its end."""

    @property
    @abstractmethod
    def _may_start(self) -> bool:
        """Whether what waits for its answer lets another request start."""

    @property
    @abstractmethod
    def _slots_bytes(self) -> int:
        """What the requests and replies keep that stand in line."""

    def _look(self) -> None:
        """Shall the peer be read? Not while nothing may start, nor while the budget has no room for it."""
        self.wants_input = self._may_start and not self._waits

    # ---- bytes

    def received(self, data: bytes) -> None:
        """Handle the frames in `data`; what is left of it waits for more."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        self._frames(data, is_fresh=True)

    def filled(self, size: int) -> None:
        """`size` bytes have come into `room`."""
        large = self._large
        assert large is not None
        self._leave_room()
        large.have += size
        self.came_at = self.moved_at = self._ticks()
        if large.is_complete:
            self._finish_large(large)
        else:
            self._make_room(large)

    def resume(self) -> None:
        """Handle what was left for another turn."""
        self.behind = False
        if self._large is None:
            data, self._rest = self._rest, b""
            self._frames(data, is_fresh=False)
            self._weigh()
        elif self._large.is_complete:
            self._finish_large(self._large)

    def owes(self, size: int, kept_bytes: int) -> None:
        """So much of `out` has not gone, for the peer takes no more; a part of it is in memory."""
        now = self._ticks()
        if size < self.owed_bytes or not size:
            self.moved_at = now
        if not self.owed_bytes:
            self.owed_at = now
        elif not size:
            self._shared.owed_ns += now - self.owed_at
        self.owed_bytes, self._owed_kept_bytes = size, kept_bytes
        self._weigh()

    def closed(self) -> None:
        """The peer is gone, and nothing is kept for it but what handlers still work on."""
        self.ended = True
        self._leave_room()
        self._rest, self._large, self.begun_at = b"", None, None
        self.owed_bytes = self._owed_kept_bytes = 0
        self.out.clear()
        self._shared.budget.leave(self)
        self._weigh()
        self._shared.on_closed(self)

    def end(self, ending: ConnectionEnding) -> None:
        """Close the connection, outside a turn."""
        self.ended, self.ending = True, ending
        self._pump.close()

    # ---- frames

    def _frames(self, data: bytes, *, is_fresh: bool) -> None:
        """Handle the frames in `data`, as far as one turn goes; keep what is left. `is_fresh`: some has come now."""
        now = self._ticks()
        if is_fresh:
            self.came_at = now
        if self._shared.budget.is_full:
            self._rest, self.moved_at = data, now
            self._wait_for_requests()
            return
        pos, have, out = 0, len(data), self.out
        turn_ends_at = now + TURN_NS_MAX
        try:
            while have - pos >= 4:
                (size,) = unpack_size(data, pos)
                end = pos + 4 + size
                if end > have or size < FRAME_BYTES_MIN or size > self._shared.request_bytes_max:
                    self._check_size(size)
                    break
                now = self._request(data, pos + 4, end, now)
                pos = end
                if not self.wants_input:
                    break
                if now > turn_ends_at or len(out) > OUT_PARTS_MAX:
                    self.behind = pos < have
                    break
        except Exception as error:  # noqa: BLE001 - what one peer provokes is no other's trouble
            self._end_with(error)
            return
        self.moved_at = now
        if pos < have:
            self._keep(data[pos:] if pos else data, is_new=pos > 0)
        elif self.begun_at is not None:
            self.begun_at = None
            self._weigh()

    def _check_size(self, size: int) -> None:
        size_max = self._shared.request_bytes_max
        if not FRAME_BYTES_MIN <= size <= size_max:
            raise DecodeError(f"a request of {size} bytes, allowed are {FRAME_BYTES_MIN} to {size_max}")

    def _keep(self, rest: bytes, *, is_new: bool) -> None:
        """Keep the start of a frame until the next turn; a large one gets a buffer of its own."""
        if is_new or self.begun_at is None:
            self.begun_at = self.moved_at
        self._rest = rest
        if len(rest) > LARGE_FRAME_BYTES and self._may_start:  # what keeps it from starting may take for ever
            (size,) = unpack_size(rest)
            if len(rest) - 4 < size <= self._shared.request_bytes_max:
                self._begin_large(size, rest)
        self._weigh()

    def _begin_large(self, size: int, rest: bytes) -> None:
        if self._may_grow():
            trust = TRUST_TIGHT if self._shared.budget.is_tight else TRUST
            self._large = LargeFrame(size, rest[4:], self._shared.pool, trust)
            self.room = self._large.room()
            self._rest, self.behind = b"", False

    def _make_room(self, large: LargeFrame) -> None:
        if large.is_full:
            if not self._may_grow():
                return
            large.grow()
            self._weigh()
        self.room = large.room()

    def _leave_room(self) -> None:
        if self.room is not None:
            self.room.release()  # also for whoever still has the view: the buffer must be free to grow
            self.room = None

    def _finish_large(self, large: LargeFrame) -> None:
        assert large.is_complete
        self._shared.budget.frame_done(self)
        if self._shared.budget.is_full:
            self._wait_for_requests()
            return
        self._large = self.begun_at = None
        try:
            self._request(memoryview(large.buffer), 0, large.size, self._ticks())
        except Exception as error:  # noqa: BLE001 - as in _frames
            self._end_with(error)
            return
        large.give_back()
        self._weigh()

    # ---- the budget

    def _may_grow(self) -> bool:
        self._waits = not self._shared.budget.may_grow(self)
        self._look()
        return not self._waits

    def _wait_for_requests(self) -> None:
        """No request may start anywhere: go on when one may."""
        self._waits = True
        self._shared.budget.wait_for_requests(self)
        self._look()
        self._weigh()

    def relieved(self) -> None:
        """The budget has room again."""
        self._waits = False
        if self._large is not None and not self._large.is_complete:
            self._make_room(self._large)
        self._look()
        if self.wants_input and self.room is None:
            self.behind = True
        self._pump.flush()

    def _weigh(self) -> None:
        """Charge what is kept until another turn."""
        large = 0 if self._large is None else len(self._large.buffer)
        self._shared.budget.charge(self, len(self._rest) + large + self._slots_bytes + self._owed_kept_bytes)

    @property
    def incomplete_bytes(self) -> int:
        """What has come of a frame that is incomplete."""
        return len(self._rest) if self._large is None else self._large.have

    # ---- faults

    def _end_with(self, error: Exception) -> None:
        """What the peer did wrong ends its connection, with one line; so does a fault of ours, with more."""
        if self.ended:
            return
        self.ended = True
        if isinstance(error, DecodeError | CloseConnection):
            self.ending = (
                ConnectionEnding.BAD_REQUEST if isinstance(error, DecodeError) else ConnectionEnding.REFUSED_REQUEST
            )
            logger.warning("closing the connection of %s: %s", self.peer, error)
        else:
            self.ending = ConnectionEnding.FAULT
            logger.error("closing the connection of %s: a fault of this broker", self.peer, exc_info=error)
