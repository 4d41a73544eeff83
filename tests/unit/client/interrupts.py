"""Interrupts of a call at each place at which Python may run a signal handler, one after the other."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Self

ROOT = Path(__file__).parents[3]
AWAITED = 2
"""The argument of RESUME from which on a coroutine goes on after an await, where Python runs no signal handler."""


class Interrupt:
    """A block in which `act` is called once, at a place of the code of these files and folders. Places count from 0.

    Python runs the handler of a signal, and raises what the handler raises, only when a function begins, after a call,
    and when a loop goes back. So a line that calls nothing is never interrupted, and one with several calls has as many
    places. They are counted in the thread that has entered the block, and in whatever runs there. The files are
    relative to the root of the project.

    `act` raises an error, calls a signal handler, or cancels a scope. Its frame is called by the interrupted one, so a
    handler that looks at the callers of its frame, such as trio's, finds what it would find after a real signal.
    """

    def __init__(self, place: int, act: Callable[[], Any], files: tuple[str, ...]) -> None:
        self._left, self._act = place, act
        self._files = tuple(str(ROOT / each) for each in files)
        self._last: dict[FrameType, int] = {}
        """The offset of the last instruction of each frame."""
        self.at: str | None = None
        """The place, as a file and a line, or None if the block has ended before."""

    def __enter__(self) -> Self:
        self._earlier = sys.gettrace()
        sys.settrace(self._entered)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.settrace(self._earlier)
        self._last.clear()

    def _entered(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        if self.at is not None or not frame.f_code.co_filename.startswith(self._files):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self._last[frame] = frame.f_lasti
        return self._stepped

    def _stepped(self, frame: FrameType, event: str, _arg: Any) -> Any:
        if self.at is not None:
            return None
        if event == "return":
            self._last.pop(frame, None)
        elif event == "opcode":
            last, self._last[frame] = self._last.get(frame, -1), frame.f_lasti
            if last >= 0 and last != frame.f_lasti and is_place(frame.f_code, last, frame.f_lasti):
                if not self._left:
                    path = Path(frame.f_code.co_filename).relative_to(ROOT)
                    self.at = f"{path}:{frame.f_lineno}"
                    self._last.clear()
                    self._act()
                    return None
                self._left -= 1
        return self._stepped


@cache
def is_place(code: CodeType, offset: int, after: int) -> bool:
    """Whether Python may run a signal handler between the instructions at these offsets.

    A call of a coroutine does not count, since the coroutine begins at once, and is interrupted there. Nor does a call
    that ends a block: its interrupt belongs to the block, but would be raised behind it.
    """
    name = dis.opname[code.co_code[offset]]
    if name == "RESUME":
        return code.co_code[offset + 1] & 3 < AWAITED
    if "JUMP_BACKWARD" in name:
        return "NO_INTERRUPT" not in name
    if not name.startswith("CALL") or dis.opname[code.co_code[after]] == "GET_AWAITABLE":
        return False
    return handler(code, offset) == handler(code, after)


def handler(code: CodeType, offset: int) -> int | None:
    """Return the offset at which an error of the instruction at `offset` is handled, or None."""
    table = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    return next((each.target for each in table if each.start <= offset < each.end), None)


def each_interrupt(act: Callable[[], Any], *files: str) -> Iterator[Interrupt]:
    """Yield an interrupt for each place, in their order. The caller runs the same call inside each of them.

    The last one is that of a call that has ended before the place was reached.
    """
    place = 0
    while True:
        interrupt = Interrupt(place, act, files)
        yield interrupt
        if interrupt.at is None:
            return
        place += 1
