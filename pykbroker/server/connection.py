"""One client connection without I/O: bytes in, handler calls, replies out in request order.

While nothing is ahead, a reply is encoded straight into `out`; behind one that waits it takes a slot in line.
Sources: the request and response headers of KIP-482; ordering as in Kafka's SocketServer.
"""

from __future__ import annotations

from collections.abc import Generator
from struct import Struct
from types import GeneratorType
from typing import Any

from pykbroker.core.steps import Steps
from pykbroker.server.failure import failure
from pykbroker.server.handler import NO_RESPONSE, Answer, CloseConnection, Later, RequestContext, resolve
from pykbroker.server.intake import Intake, Shared
from pykbroker.server.large_frame import LARGE_FRAME_BYTES
from pykbroker.server.slot import SLOTS_MAX, Slot, drain, hurry
from pykbroker.world.disk import Buffer
from pykbroker.world.net import Peer, Pump
from pykbroker.world.turns import Unfinished
from wire.api import ApiKey
from wire.compile_decoder import skip_tags
from wire.declare import REQUEST_ELEMENTS_MAX, STRING_BYTES_MAX, Response
from wire.errors import DecodeError

unpack_header = Struct(">Iih").unpack_from
"""API key and version as one number, correlation id, length of the client id."""
FETCH = ApiKey.FETCH


class Connection(Intake):
    """Matches `world.net.Connection`."""

    __slots__ = ("_client_id", "_client_raw", "_slots", "_table")

    def __init__(self, peer: Peer, pump: Pump, shared: Shared) -> None:
        super().__init__(peer, pump, shared)
        self._table = shared.table
        self._slots: list[Slot] = []
        self._client_raw: bytes | None = b""
        self._client_id: str | None = ""

    @property
    def waiting(self) -> int:
        """Requests that wait for their answers."""
        return len(self._slots)

    @property
    def _may_start(self) -> bool:
        return not self._is_held and len(self._slots) < SLOTS_MAX

    @property
    def _slots_bytes(self) -> int:
        return sum(slot.kept_bytes for slot in self._slots)

    def closed(self) -> None:
        """As `world.net.Connection`: what waits for the peer's sake is hurried, its replies have nowhere to go."""
        hurry(self._slots)
        super().closed()

    # ---- a request

    def _request(self, data: Buffer, pos: int, end: int, began_at: int) -> int:
        key_version, correlation_id, length = unpack_header(data, pos)
        route = self._table[key_version]
        size = end - pos
        pos += 10
        if length < 0:
            self._be_nameless(length)
        else:
            start, pos = pos, pos + length
            if data[start:pos] != self._client_raw:  # else it fits, or the body will not
                self._be_called(bytes(data[start:pos]), fits=pos <= end)
        if route.tagged_header:
            pos = pos + 1 if pos < end and not data[pos] else after_tags(data, pos, end)
        if self._slots and route.key != FETCH:
            hurry(self._slots)  # a Fetch that is parked there: its client waits for something else now
        context = RequestContext(route.version, self._client_id, self.peer)
        if size < LARGE_FRAME_BYTES:
            request = route.decode(data, pos, end)
        else:
            steps = route.decode_in_steps(data, pos, end)
            request = self._shared.turns.begin(steps)
            if request is Unfinished.UNFINISHED:
                slot = Slot(route, correlation_id, context, None, began_at, size)
                return self._wait(slot, Later(self._read_on(slot, steps), holds_connection=True))
        try:
            handler = route.handler if size < LARGE_FRAME_BYTES else route.handler.handle_large
            answer = handler(context, request)
            if type(answer) is Later:  # not isinstance: it asks the metaclass of all structs, for each request
                answer = self._first_share(answer)
        except (CloseConnection, DecodeError):
            raise
        except Exception as error:  # noqa: BLE001 - what a handler lets out is answered, and logged there
            answer = failure(route, request, error)
        if type(answer) is Later:
            return self._wait(Slot(route, correlation_id, context, request, began_at, size), answer)
        if self._slots:
            slot = Slot(route, correlation_id, context, request, began_at, size)
            slot.answer(answer, self._ticks())
            self._slots.append(slot)
            self._look()
            self._weigh()
        elif answer is not NO_RESPONSE:
            route.frame(correlation_id, answer, self.out)
        now = self._ticks()
        route.took(size, began_at - self.came_at, now - began_at)
        return now

    def _first_share(self, later: Later) -> Answer:
        """Run the first share of steps at once. A coroutine is left to a task."""
        if type(later.work) is not GeneratorType:
            return later
        steps = resolve(later)
        result = self._shared.turns.begin(steps)
        if result is Unfinished.UNFINISHED:
            return Later(self._shared.turns.walk(steps), holds_connection=True)
        return result

    def _be_called(self, raw: bytes, *, fits: bool) -> None:
        """Decode the client id: once, as a rule, for all requests have the same."""
        if not fits:
            raise DecodeError("the client id does not fit its frame")
        name = raw.decode(errors="replace")  # as Java does; there are clients that send Latin-1
        if len(name.encode()) > STRING_BYTES_MAX:
            raise DecodeError("the client id is longer than a string may be")
        self._client_raw, self._client_id = raw, name

    def _be_nameless(self, length: int) -> None:
        if length < -1:
            raise DecodeError(f"a client id of {length} bytes")
        self._client_raw = self._client_id = None

    # ---- a request that waits

    def _wait(self, slot: Slot, later: Later) -> int:
        """Add the request to the reply queue, and start a task for its work."""
        self._slots.append(slot)
        if later.holds_connection:
            self._is_held = True
            self._shared.budget.hold()
        self._look()
        self._weigh()
        self._shared.tasks.start_soon(self._finish, slot, later)
        slot.parked_at = now = self._ticks()
        slot.route.parked(slot.kept_bytes, slot.began_at - self.came_at, now - slot.began_at)
        return now

    async def _finish(self, slot: Slot, later: Later) -> None:
        """Run the work to its end, and send all replies that are ready, in order."""
        outcome: Response | Exception
        try:
            outcome = await self._result(later)
            outcome = await self._shared.turns.through(slot.route.encode_in_steps(outcome))
        except Exception as error:  # noqa: BLE001 - as in _request
            outcome = error
        self.moved_at = now = self._ticks()
        slot.route.finished(now - slot.parked_at, now - slot.began_at)
        try:
            self._conclude(slot, outcome)
        except Exception as error:  # noqa: BLE001 - as in _frames
            self._end_with(error)
        if self.ended:
            self._pump.close()
        else:
            self._go_on()

    async def _result(self, later: Later) -> Response:
        """Run work, and the work to which it leads, until there is a response.

        Later requests may start as soon as the first work that holds the connection has ended in one that does not.
        """
        holds = later.holds_connection
        answer: Answer = later
        try:
            while isinstance(answer, Later):
                if holds and not answer.holds_connection:
                    holds = False
                    self._let_go()
                    self._go_on()
                if isinstance(answer.work, Generator):
                    answer = await self._shared.turns.through(resolve(answer))
                else:
                    answer = await answer.work
        finally:
            if holds:
                self._let_go()
        return answer

    async def _read_on(self, slot: Slot, steps: Steps[Any]) -> Answer:
        """Decode the rest of a large request, and handle it."""
        slot.request = await self._shared.turns.walk(steps)
        return slot.route.handler.handle_large(slot.context, slot.request)

    def _let_go(self) -> None:
        self._is_held = False
        self._shared.budget.let_go()

    def _go_on(self) -> None:
        """Send what is ready, and start requests again if that is allowed by now."""
        self._look()
        if self._rest and self.wants_input:
            self.behind = True
        self._pump.flush()

    def _conclude(self, slot: Slot, outcome: Response | Exception) -> None:
        """Write the reply, unless nobody is there any more to read it."""
        try:
            if isinstance(outcome, CloseConnection | DecodeError):
                raise outcome
            if not self.ended:
                if isinstance(outcome, Exception):
                    outcome = failure(slot.route, slot.request, outcome)
                slot.answer(outcome, self.moved_at)
                drain(self._slots, self.out, self.moved_at)
        finally:
            if not slot.done:
                self._slots.remove(slot)
            self._weigh()


def after_tags(data: Buffer, pos: int, end: int) -> int:
    """Where the body begins behind the tagged fields of a request header."""
    try:
        if pos < end:
            return skip_tags(data, pos, end, REQUEST_ELEMENTS_MAX)[0]
    except IndexError:
        pass
    raise DecodeError("the request header does not fit its frame")
