"""Interrupts of a call at the places at which Python may run a signal handler, one after the other.

A run of the tests takes one place of STRIDE. INTERRUPT_STRIDE=1 in the environment takes all of them, which takes
minutes.
"""

from __future__ import annotations

import dis
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Self

ROOT = Path(__file__).parents[3]
STRIDE = int(os.environ.get("INTERRUPT_STRIDE", 10))
LONG_STRIDE = 8 * STRIDE - 7
"""The stride of calls in whose thread the whole client and its cluster run, so that they have many places."""
AWAITED = 2
"""The argument of RESUME from which on a coroutine goes on after an await, where Python runs no signal handler."""


class Interrupt:
    """A block in which `act` is called once, at a place of the code of these files and folders. Places count from 0.

    Python runs the handler of a signal, and raises what the handler raises, only when a function begins, after a call,
    and when a loop goes back. So a line that calls nothing is never interrupted, and one with several calls has as many
    places. They are counted in the thread that has entered the block, and in whatever runs there. The files are
    relative to the root of the project, or those of a module of Python. The name of a folder ends with a slash.

    `act` raises an error, calls a signal handler, or cancels a scope. Its frame is called by the interrupted one, so a
    handler that looks at the callers of its frame, such as trio's, finds what it would find after a real signal.

    A function counts only if `counts` returns true where it begins, and a coroutine also where it goes on.
    """

    def __init__(
        self, place: int, act: Callable[[], Any], files: tuple[str, ...], counts: Callable[[], bool] = lambda: True
    ) -> None:
        self._left, self.act, self._counts = place, act, counts
        self._files = tuple(os.path.join(ROOT, each) for each in files)  # a path from the root stays as it is
        self._last: dict[FrameType, int] = {}
        """The offset of the last instruction of each frame."""
        self.at: str | None = None
        """The place, as a file and a line, or None if the block has ended before."""
        self._is_over = False

    def __enter__(self) -> Self:
        self._earlier = sys.gettrace()
        sys.settrace(self._entered)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.settrace(self._earlier)
        self._is_over = True
        self._last.clear()

    def _entered(self, frame: FrameType, _event: str, _arg: Any) -> Any:
        if self._is_over or not frame.f_code.co_filename.startswith(self._files) or not self._counts():
            frame.f_trace = None  # of an earlier block, or of a task that counts
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self._last[frame] = frame.f_lasti
        return self._stepped

    def _stepped(self, frame: FrameType, event: str, _arg: Any) -> Any:
        if self._is_over:  # a coroutine that goes on keeps the function of an earlier block
            return None
        if event == "return":
            self._last.pop(frame, None)
        elif event == "opcode":
            last, self._last[frame] = self._last.get(frame, -1), frame.f_lasti
            if last >= 0 and last != frame.f_lasti and is_place(frame.f_code, last, frame.f_lasti):
                if not self._left:
                    path = frame.f_code.co_filename.removeprefix(f"{ROOT}/")
                    self.at, self._is_over = f"{path}:{frame.f_lineno}", True
                    self._last.clear()
                    self.act()
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
        return "NO_INTERRUPT" not in name and after < offset  # one that does not jump looks for no signal
    if not name.startswith("CALL") or dis.opname[code.co_code[after]] == "GET_AWAITABLE":
        return False
    return handler(code, offset) == handler(code, after)


def handler(code: CodeType, offset: int) -> int | None:
    """Return the offset at which an error of the instruction at `offset` is handled, or None."""
    table = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    return next((each.target for each in table if each.start <= offset < each.end), None)


def each_interrupt(
    acts: Sequence[Callable[[], Any]], *files: str, stride: int = STRIDE, counts: Callable[[], bool] = lambda: True
) -> Iterator[Interrupt]:
    """Yield interrupts by each act at one place of `stride`, in their order. The caller runs the same call inside each.

    The acts begin at different places. The last interrupt by each act is that of a call that has ended before.
    """
    for number, act in enumerate(acts):
        place = number * stride // len(acts)
        while True:
            interrupt = Interrupt(place, act, files, counts)
            yield interrupt
            if interrupt.at is None:
                break
            place += stride
