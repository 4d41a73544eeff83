"""A program of states, all of which are followed at once (Thompson): it matches in time that is linear in the name.

An instruction is its kind, for CHAR the test that lets a character pass to the next instruction, and for SPLIT the
places where it goes on. START and END pass at the ends of the name only, MATCH is the end of the program.
"""

from __future__ import annotations

from collections.abc import Callable

Test = Callable[[str], bool]
CHAR, SPLIT, START, END, MATCH = range(5)
Instruction = tuple[int, Test | None, tuple[int, ...]]
States = tuple[int, ...]
KNOWN_MAX = 10_000
"""Ways from one set of states to the next that are remembered."""


class Automaton:
    """A program at work. Where a character leads from a set of states is remembered, so that honest patterns cost a
    look-up for each character; `steps` counts the states that were followed to find it out.
    """

    def __init__(self, program: tuple[Instruction, ...]) -> None:
        self._program = program
        self._known: dict[tuple[States, str, bool], States] = {}
        self.steps = 0

    def matches(self, name: str) -> bool:
        """Whether the whole name matches."""
        states = _reach(self._program, [0], at_start=True, at_end=not name)
        last = len(name) - 1
        for place, char in enumerate(name):
            key = states, char, place == last
            following = self._known.get(key)
            if following is None:
                following = self._follow(*key)
            if not following:
                return False
            states = following
        return any(self._program[state][0] == MATCH for state in states)

    def _follow(self, states: States, char: str, at_end: bool) -> States:
        self.steps += len(states) + 1
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        moved = [state + 1 for state in states if (test := self._program[state][1]) is not None and test(char)]
        following = self._known[states, char, at_end] = _reach(self._program, moved, at_start=False, at_end=at_end)
        return following


def _reach(program: tuple[Instruction, ...], states: list[int], *, at_start: bool, at_end: bool) -> States:
    """The states that wait for a character, or match, from these on."""
    seen: set[int] = set()
    found, stack = [], states[::-1]
    while stack:
        state = stack.pop()
        if state in seen:
            continue
        seen.add(state)
        kind, _, following = program[state]
        if kind == SPLIT:
            stack.extend(following)
        elif kind in (START, END):
            if at_start if kind == START else at_end:
                stack.append(state + 1)
        else:
            found.append(state)
    return tuple(found)
