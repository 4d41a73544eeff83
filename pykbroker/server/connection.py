"""One client connection without I/O: bytes in, handler calls, replies out in request order.

While nothing is ahead, a reply is encoded straight into `out`; behind one that waits it takes a slot in line.
Sources: the request and response headers of KIP-482; ordering as in Kafka's SocketServer.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from struct import Struct
from types import CoroutineType, GeneratorType
from typing import Any

from pykbroker.server.failure import failure
from pykbroker.server.handler import Answer, CloseConnection, HandlerSteps, Held, RequestContext, Result, Waiting
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
            steps = route.decode_slowly(data, pos, end)
            request = self._shared.turns.begin(steps)
            if request is Unfinished.UNFINISHED:
                slot = Slot(route, correlation_id, context, None, began_at, size)
                return self._wait(slot, Held(self._read_on(slot, steps)))
        try:
            handler = route.handler if size < LARGE_FRAME_BYTES else route.slow_handler
            answer = handler(context, request)
            if type(answer) is GeneratorType:
                answer = self._first_share(answer)
        except (CloseConnection, DecodeError):
            raise
        except Exception as error:  # noqa: BLE001 - what a handler lets out is answered, and logged there
            answer = failure(route, request, error)
        kind = type(answer)  # not isinstance: it asks the metaclass of all structs, for each request
        if kind is CoroutineType or kind is Held:
            return self._wait(Slot(route, correlation_id, context, request, began_at, size), answer)
        if self._slots:
            slot = Slot(route, correlation_id, context, request, began_at, size)
            slot.answer(answer, self._ticks())
            self._slots.append(slot)
            self._look()
            self._weigh()
        elif answer is not None:
            route.frame(correlation_id, answer, self.out)
        now = self._ticks()
        route.took(size, began_at - self.came_at, now - began_at)
        return now

    def _first_share(self, steps: HandlerSteps) -> Answer:
        """What there is after one share of the loop's time; later requests wait for the rest."""
        result = self._shared.turns.begin(steps)
        return Held(self._shared.turns.walk(steps)) if isinstance(result, Unfinished) else result

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

    def _wait(self, slot: Slot, answer: Waiting | Held) -> int:
        """Give the reply its place in line, and what it waits for a task."""
        self._slots.append(slot)
        if isinstance(answer, Held):
            self._is_held = True
            self._shared.budget.hold()
        self._look()
        self._weigh()
        self._shared.tasks.start_soon(self._finish, slot, answer)
        slot.parked_at = now = self._ticks()
        slot.route.parked(slot.kept_bytes, slot.began_at - self.came_at, now - slot.began_at)
        return now

    async def _finish(self, slot: Slot, answer: Waiting | Held) -> None:
        """Run a handler's coroutine, then let go all replies that are ready, in order."""
        outcome: Result | Exception
        try:
            outcome = await (self._hold(answer) if isinstance(answer, Held) else self._result(answer))
            if isinstance(outcome, Response):
                outcome = await self._end_of(slot.route.encode_slowly(outcome))
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

    async def _read_on(self, slot: Slot, steps: Generator[None, None, Any]) -> Result | Waiting | HandlerSteps:
        """Decode the rest of a large request, and have it handled."""
        slot.request = await self._shared.turns.walk(steps)
        answer = slot.route.slow_handler(slot.context, slot.request)
        return await answer.coroutine if isinstance(answer, Held) else answer

    async def _hold(self, held: Held) -> Any:
        """Keep later requests back only as long as the order of the appends asks for it."""
        try:
            answer: Result | Waiting = await self._result(held.coroutine)
        finally:
            self._is_held = False
            self._shared.budget.let_go()
        if isinstance(answer, Coroutine):
            self._go_on()
            answer = await self._result(answer)
        return answer

    async def _result(self, waiting: Coroutine[Any, Any, Any]) -> Any:
        """What it gives, or what the steps lead to that it gives."""
        answer = await waiting
        return await self._end_of(answer) if isinstance(answer, Generator) else answer

    async def _end_of(self, steps: Generator[None, None, Any]) -> Any:
        """What they lead to: most in their first share, which waits for nobody."""
        return await self._shared.turns.through(steps)

    def _go_on(self) -> None:
        """Send what is ready, and start requests again if that is allowed by now."""
        self._look()
        if self._rest and self.wants_input:
            self.behind = True
        self._pump.flush()

    def _conclude(self, slot: Slot, outcome: Result | Exception) -> None:
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
