"""The search for topics that match a consumer group's regular expressions, in parts of bounded cost."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, KeysView
from contextlib import suppress

from pykbroker.core.errors import ApiError
from pykbroker.core.group.requests import Shows
from pykbroker.core.name_pattern import SHARE_STEPS_MAX, NamePattern, compile_steps, compiled


class TopicSearch:
    """The search for one group. `found` has the topics of each pattern that has been matched against all names.

    `shows` is that of the member that was heard last: the search leaves out what this member may not describe.
    """

    def __init__(self, names: KeysView[str], began_ms: float, shows: Shows | None) -> None:
        self.names, self.began_ms, self.shows = names, began_ms, shows
        self.found: dict[str, list[str]] = {}
        self._waiting: deque[str] = deque()
        self._current: Pass | None = None

    @property
    def is_finished(self) -> bool:
        """Whether every pattern has been matched against all names."""
        return self._current is None and not self._waiting

    def look_for(self, patterns: Collection[str]) -> None:
        """Search for these patterns only, and drop the results of all other patterns."""
        for pattern in [one for one in self.found if one not in patterns]:
            del self.found[pattern]
        if self._current is not None and self._current.pattern not in patterns:
            self._current = None
        current = None if self._current is None else self._current.pattern
        self._waiting = deque(one for one in patterns if one not in self.found and one != current)

    def advance(self) -> None:
        """Run the next part of the search, of at most `SHARE_STEPS_MAX` RE2 instructions unless one name needs more."""
        steps = 0
        while not self.is_finished:
            current = self._current
            more = compile_steps(self._waiting[0]) if current is None else current.steps
            if steps and steps + more > SHARE_STEPS_MAX:
                return
            steps += more
            if current is None:
                self._begin(self._waiting.popleft())
            elif current.advance(self.shows):
                self.found[current.pattern] = current.found
                self._current = None

    def _begin(self, pattern: str) -> None:
        """Compile the next pattern.

        A pattern that another broker stored and that does not compile here is skipped, and keeps its stored topics.
        """
        with suppress(ApiError):
            self._current = Pass(pattern, compiled(pattern), sorted(self.names))


class Pass:
    """The matching of one pattern against all names. `steps` is the cost of the next names, in RE2 instructions."""

    def __init__(self, pattern: str, regexp: NamePattern, names: list[str]) -> None:
        self.pattern, self._regexp = pattern, regexp
        self.found: list[str] = []
        self._shares: Iterator[list[str]] = regexp.shares(names)
        self._share: list[str] = []
        self.steps = 0
        self._look_ahead()

    def advance(self, shows: Shows | None) -> bool:
        """Match the next names, which cost at most one share of `NamePattern.shares`, and leave out some by `shows`.

        Return whether they were the last.
        """
        matching = self._regexp.matching(self._share)
        self.found += matching if shows is None else shows(matching)
        return self._look_ahead()

    def _look_ahead(self) -> bool:
        self._share = next(self._shares, [])
        self.steps = sum(map(self._regexp.steps, self._share))
        return not self._share
