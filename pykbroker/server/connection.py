"""A client connection without I/O: it takes received bytes, calls handlers, and emits replies in request order.

A connection owns a frame reader and a reply queue. It decides when a request may start, depending on the memory budget
and on the time that it has used in this pass of the event loop (its turn). Headers are those of KIP-482, and the order
is that of Kafka's SocketServer.
"""

from __future__ import annotations

import logging
from functools import partial
from struct import Struct

from pykbroker.core.security.session import Session
from pykbroker.server.ending import ConnectionEnding
from pykbroker.server.failure import failure
from pykbroker.server.frames import FrameReader
from pykbroker.server.handler import NO_RESPONSE, CloseConnection, Later, RequestContext
from pykbroker.server.large_frame import LARGE_FRAME_BYTES, TRUST, TRUST_TIGHT, LargeFrame
from pykbroker.server.login.refusal import LoginRefused
from pykbroker.server.replies import ReplyQueue
from pykbroker.server.request_header import decode_client_id, skip_header_tags
from pykbroker.server.shared import Routes, Shared
from pykbroker.server.slot import Slot
from pykbroker.server.strangers import NotKafka
from pykbroker.server.work import first_share, read_on, response_of
from pykbroker.world.disk import Buffer
from pykbroker.world.net import Pump
from pykbroker.world.turns import Unfinished
from wire.api import ApiKey
from wire.declare import Response
from wire.errors import DecodeError

OUT_PARTS_MAX = 512
"""The number of buffers of unsent replies above which no further request is handled."""
TURN_NS_MAX = 5_000_000
"""The time after which the next ready connection is served."""
FETCH = ApiKey.FETCH
UNREADABLE = "a request cannot be read"

unpack_header = Struct(">Iih").unpack_from
"""Unpacks the API key and version as one number, the correlation id, and the length of the client id."""

logger = logging.getLogger(__name__)


class Connection:
    """A client connection. It matches `world.net.ConnectionMachine` and `server.budget.Holder`.

    Times are in ns of a monotonic clock.
    """

    __slots__ = (
        "_client_id",
        "_client_raw",
        "_frames",
        "_is_held",
        "_is_over",
        "_is_watched",
        "_pump",
        "_shared",
        "_table",
        "_ticks",
        "_waits",
        "begun_at",
        "came_at",
        "ended",
        "ending",
        "moved_at",
        "out",
        "replies",
        "room",
        "session",
        "wants_input",
        "wants_turn",
    )

    def __init__(self, session: Session, pump: Pump, shared: Shared) -> None:
        self.session, self._pump, self._shared, self._ticks = session, pump, shared, shared.turns.ticks
        self.came_at = self.moved_at = session.opened_at
        """The times at which bytes were last received, and last received or sent.

        At first, both are the time of the connection.
        """
        self._table: Routes = shared.table
        self._frames = FrameReader(shared.request_bytes_max, shared.pool)
        self.replies = ReplyQueue(session.opened_at)
        self.out, self.room = self.replies.out, self._frames.room
        self.wants_input = True
        self.ended = self.wants_turn = False
        self.ending = ConnectionEnding.PEER
        self.begun_at: int | None = None
        """The time at which the first byte of the incomplete frame was received, or None without such a frame."""
        self._client_raw: bytes | None = b""
        self._client_id: str | None = ""
        self._is_held = False
        """Whether a request blocks the connection, so that no other request is started."""
        self._waits = False
        """Whether the connection waits for the budget."""
        self._is_over = False
        """Whether the client sends nothing more."""
        self._is_watched = False
        """Whether the client is another node, and the connection ends once the node falls silent."""

    @property
    def unsent_bytes(self) -> int:
        """Return the number of unsent bytes of replies, in memory and in files."""
        return self.replies.unsent_bytes

    @property
    def incomplete_bytes(self) -> int:
        """Return the number of received bytes of incomplete frames."""
        return self._frames.incomplete_bytes

    # ---- the log-in

    def change_table(self, table: Routes, shared: Shared) -> None:
        """Look further requests up in `table`, and keep to the memory budget of `shared`."""
        self._table = table
        if shared is not self._shared:
            self._shared.budget.leave(self)
            self._shared.budget.charge(self, 0)
            self._shared = shared
            self._pump.serve_last(last=shared.serves_last)
            self._weigh()

    def change_frames(self, frames: FrameReader) -> None:
        """Split further bytes by another reader. No large frame may be incomplete."""
        frames.rest = self._frames.take()
        self._frames.bytes_max = frames.bytes_max  # the turn that goes on has the earlier reader
        self._frames = frames

    # ---- calls of the pump

    def received(self, data: bytes) -> None:
        """Handle the frames in `data`, and keep an incomplete frame.

        Without data, the client sends nothing more. As in Kafka, the connection ends once all requests are answered.
        """
        if data:
            self._turn(self._frames.take(data), is_fresh=True)
            return
        self._is_over, self.ended = True, not self.replies.slots
        self._frames.clear()
        self.room = self.begun_at = None
        self._shared.budget.leave(self)
        self._look()
        self._weigh()

    def filled(self, size: int) -> None:
        """Note that `size` bytes have been received into `room`."""
        if not size:
            self.received(b"")
            return
        large = self._frames.filled(size)
        self.room = None
        self.came_at = self.moved_at = self._ticks()
        if large.is_complete:
            self._finish_large(large)
        else:
            self._make_room(large)

    def resume(self) -> None:
        """Handle the received bytes that were left when the previous turn ended."""
        self.wants_turn = False
        large = self._frames.large
        if large is None:
            self._turn(self._frames.take(), is_fresh=False)
            self._weigh()
        elif large.is_complete:
            self._finish_large(large)

    def unsent(self, size: int, kept_bytes: int) -> None:
        """Note that `size` bytes of `out` are unsent because the socket takes no more.

        `kept_bytes` of them are in memory.
        """
        now = self._ticks()
        if size < self.replies.unsent_bytes or not size:
            self.moved_at = now
        self._shared.unsent_ns += self.replies.unsent(size, kept_bytes, now)
        self._weigh()

    def closed(self) -> None:
        """Drop all data for the client. Waiting requests continue, but a waiting Fetch ends."""
        self.replies.hurry()
        self.replies.clear()
        self.received(b"")
        self.ended = True
        self._table = self._shared.table  # a table of this connection alone refers to it
        self._shared.on_closed(self)

    def end(self, ending: ConnectionEnding) -> None:
        """Close the connection for this reason. It is called outside the handling of requests."""
        self.ended, self.ending = True, ending
        self._pump.close()

    # ---- frames

    def _turn(self, data: bytes, *, is_fresh: bool) -> None:
        """Handle the frames in `data` until the turn ends, and keep the rest.

        `is_fresh` is true if bytes were just received.
        """
        now = self._ticks()
        if is_fresh:
            self.came_at = now
        frames = self._frames
        if self._shared.budget.is_full:
            # Too many requests block their connections. These bytes are handled once some of them have ended.
            frames.rest, self.moved_at = data, now
            self._wait_for_requests()
            return
        pos, have, out = 0, len(data), self.out
        turn_ends_at = now + TURN_NS_MAX
        try:
            while pos < have and (end := frames.end_of(data, pos)):
                now = self._request(data, pos + 4, end, now)
                pos = end
                if not self.wants_input:
                    break
                if now > turn_ends_at or len(out) > OUT_PARTS_MAX:
                    self.wants_turn = pos < have
                    break
        except Exception as error:  # noqa: BLE001 - an error that one peer causes must not reach the others
            self._end_with(error)
            return
        self.moved_at = now
        if pos < have:
            self._keep(data[pos:] if pos else data, is_new=pos > 0)
        elif self.begun_at is not None:
            self.begun_at = None
            self._weigh()

    def _keep(self, rest: bytes, *, is_new: bool) -> None:
        """Keep the start of a frame until more bytes are received. A large frame gets a separate buffer."""
        if is_new or self.begun_at is None:
            self.begun_at = self.moved_at
        self._frames.rest = rest
        may_start = not (self._is_held or self.replies.is_full)  # otherwise the frame might keep its memory for ever
        if self._frames.wants_buffer and may_start and self._may_grow():
            self._frames.begin_large(TRUST_TIGHT if self._shared.budget.is_tight else TRUST)
            self.room, self.wants_turn = self._frames.room, False
        self._weigh()

    def _make_room(self, large: LargeFrame) -> None:
        if large.is_full:
            if not self._may_grow():
                return
            large.grow()
            self._weigh()
            if self.ended:  # a client that has not logged in may have to make room
                return
        self._frames.open_room()
        self.room = self._frames.room

    def _finish_large(self, large: LargeFrame) -> None:
        assert large.is_complete
        self._shared.budget.frame_done(self)
        if self._shared.budget.is_full:
            self._wait_for_requests()
            return
        self._frames.large = self.begun_at = None
        try:
            self._request(memoryview(large.buffer), 0, large.size, self._ticks())
        except Exception as error:  # noqa: BLE001 - as in _turn
            self._end_with(error)
            return
        large.give_back()
        self._weigh()

    # ---- a request

    def _request(self, data: Buffer, pos: int, end: int, began_at: int) -> int:
        """Handle the request at `pos` of `data`, where its header begins, and return the time at its end."""
        key_version, correlation_id, length = unpack_header(data, pos)
        route = self._table[key_version]
        size = end - pos
        pos += 10
        raw: Buffer | None = None
        if length >= 0:
            raw = data[pos : pos + length]
            pos += length
        if raw != self._client_raw or length < -1:  # an unchanged client id was checked before
            self._client_raw, self._client_id = decode_client_id(raw, length, fits=pos <= end)
        if route.tagged_header:
            pos = pos + 1 if pos < end and not data[pos] else skip_header_tags(data, pos, end)
        replies = self.replies
        if replies.slots and route.key != FETCH:
            replies.hurry()  # the client of a waiting Fetch now waits for another response
        context = RequestContext(route.version, self._client_id, self.session)
        if size < LARGE_FRAME_BYTES:
            request = route.decode(data, pos, end)
        else:
            steps = route.decode_in_steps(data, pos, end)
            request = self._shared.turns.begin(steps)
            if request is Unfinished.UNFINISHED:
                slot = Slot(route, correlation_id, context, None, began_at, size)
                return self._wait(slot, Later(read_on(slot, steps, self._shared.turns), holds_connection=True))
        try:
            handler = route.handler if size < LARGE_FRAME_BYTES else route.handler.handle_large
            answer = handler(context, request)
            if type(answer) is Later:  # isinstance is slow here: it calls the metaclass of all structs
                answer = first_share(answer, self._shared.turns)
        except (CloseConnection, DecodeError):
            raise
        except Exception as error:  # noqa: BLE001 - `failure` answers and logs what a handler raises
            answer = failure(route, request, error)
        if context.from_node and not self._is_watched:
            self._is_watched = True
            self._pump.end_when_silent()
        if type(answer) is Later:
            return self._wait(Slot(route, correlation_id, context, request, began_at, size), answer)
        # A reply must not overtake those of earlier requests: clients match replies to requests by their order.
        if replies.slots:
            slot = Slot(route, correlation_id, context, request, began_at, size)
            slot.answer(answer, self._ticks())
            replies.slots.append(slot)
            self._look()
            self._weigh()
        elif answer is not NO_RESPONSE:
            route.frame(correlation_id, answer, self.out)
        now = self._ticks()
        route.took(size, began_at - self.came_at, now - began_at)
        return now

    def _wait(self, slot: Slot, later: Later) -> int:
        """Add the request to the reply queue, and start a task for its work."""
        self.replies.slots.append(slot)
        if later.holds_connection:
            slot.holds = self._is_held = True
            slot.count(self._shared.budget, counts=not later.awaits_node)
        self._look()
        self._weigh()
        self._shared.tasks.start_soon(self._finish, slot, later)
        slot.parked_at = now = self._ticks()
        slot.route.parked(slot.kept_bytes, slot.began_at - self.came_at, now - slot.began_at)
        return now

    async def _finish(self, slot: Slot, later: Later) -> None:
        """Run the work of a request to its end, and send all replies that are ready, in order."""
        outcome: Response | Exception
        turns = self._shared.turns
        try:
            try:
                response = await response_of(later, turns, partial(self._go_over, slot))
            finally:
                self._go_over(slot)
            outcome = await turns.through(slot.route.encode_in_steps(response))
        except Exception as error:  # noqa: BLE001 - as in _request
            outcome = error
        self.moved_at = now = self._ticks()
        slot.route.finished(now - slot.parked_at, now - slot.began_at)
        try:
            self._conclude(slot, outcome)
        except Exception as error:  # noqa: BLE001 - as in _turn
            self._end_with(error)
        finally:
            del outcome  # an error refers to this frame, and would keep it and the request until a garbage collection
        if self.ended:
            self._pump.close()
        else:
            self._go_on()

    def _conclude(self, slot: Slot, outcome: Response | Exception) -> None:
        """Write the reply, unless the connection has ended."""
        try:
            if isinstance(outcome, CloseConnection | DecodeError):
                if isinstance(outcome, CloseConnection) and outcome.answer is not None and not self.ended:
                    self.replies.answer(slot, outcome.answer, self.moved_at)
                    self._pump.flush()
                self._end_with(outcome)
            elif not self.ended:
                if isinstance(outcome, Exception):
                    outcome = failure(slot.route, slot.request, outcome)
                self.replies.answer(slot, outcome, self.moved_at)
        finally:
            if not slot.done:
                self.replies.slots.remove(slot)
            self._weigh()

    def _go_over(self, slot: Slot, later: Later | None = None) -> None:
        """Note that a request goes over to further work, or that its work has ended.

        If it blocked the connection and no longer does, further requests may start, at once if its work goes on.
        """
        if not slot.holds:
            return
        if later is not None and later.holds_connection:
            slot.count(self._shared.budget, counts=not later.awaits_node)
            return
        slot.holds = self._is_held = False
        slot.count(self._shared.budget, counts=False)
        if later is not None:
            self._go_on()

    def _go_on(self) -> None:
        """Send the replies that are ready, and handle the kept bytes if a request may start."""
        self._look()
        if self.wants_input and self.room is None and self._frames.incomplete_bytes:
            self.wants_turn = True
        self._pump.flush()

    # ---- the budget

    def _look(self) -> None:
        """Set whether the pump reads: only while a request may start and the budget has room for it.

        If the client sends nothing more, the pump reads again once all requests are answered, and finds the end.
        """
        waits_for_replies = self._is_over and len(self.replies) > 0
        self.wants_input = not (self._is_held or self._waits or self.replies.is_full or waits_for_replies)

    def _may_grow(self) -> bool:
        self._waits = not self._shared.budget.may_grow(self)
        self._look()
        return not self._waits

    def _wait_for_requests(self) -> None:
        """Queue this connection until the budget lets requests start again."""
        self._waits = True
        self._shared.budget.wait_for_requests(self)
        self._look()
        self._weigh()

    def relieved(self) -> None:
        """Continue, because the budget has room again."""
        self._waits = False
        large = self._frames.large
        if large is not None and not large.is_complete:
            self._make_room(large)
        self._go_on()

    def _weigh(self) -> None:
        """Charge the budget for the memory that stays in use until the connection is served again."""
        self._shared.budget.charge(self, self._frames.kept_bytes + self.replies.kept_bytes)

    # ---- errors

    def _end_with(self, error: Exception) -> None:
        """Close the connection. Log one line for an error of the client, and a traceback for a bug of this broker."""
        if self.ended:
            return
        self.ended = True
        if isinstance(error, DecodeError | CloseConnection):
            self.ending = ConnectionEnding.BAD_REQUEST if isinstance(error, DecodeError) else error.ending
            self._report(error)
        else:
            self.ending = ConnectionEnding.FAULT
            logger.error("closing the connection of %s: an internal error of this broker", self.session, exc_info=error)

    def _report(self, error: DecodeError | CloseConnection) -> None:
        """Log the error of a client, at a bounded rate: anyone who reaches the listener may repeat it."""
        strangers, session = self._shared.strangers, self.session
        if isinstance(error, NotKafka):
            strangers.report(session, error)
        elif isinstance(error, LoginRefused):
            strangers.report(session, error, error.detail)
        elif isinstance(error, DecodeError) and self._table is not self._shared.table:
            strangers.report(session, UNREADABLE, f": {error}")
        else:
            strangers.closing(session, error)
