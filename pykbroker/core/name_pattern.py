"""Regular expressions over the names of topics and transactional ids, in RE2's syntax.

1. RE2 matches a name in time that is linear in its length, whatever the pattern. It refuses what would need more, such
   as back references and looking around; Kafka reads patterns with re2j, its port to Java, and refuses the same.
2. A pattern must match the whole name.
3. What one match can take is known before it begins: `NamePattern.shares` cuts many names so that nobody has to keep
   the loop for longer than one share.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any, Protocol

from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode

PATTERN_CHARS_MAX = 5000
"""A pattern is compiled in one go: one of this length takes 12 ms at most."""
UNICODE_CLASSES_MAX = 50
"""Classes such as `\\pL` in one pattern; each takes 0.1 ms to compile."""
REPEATS_MAX = 20_000
"""The sum of the counts of all repetitions in one pattern, such as `a{1000}`. A program of PROGRAM_BYTES_MAX has not
even half as many instructions, but RE2 takes up to 300 ms to refuse what repeats 500,000 times.
"""
PROGRAM_BYTES_MAX = 256 << 10
"""RE2's bound for one pattern's program, and for the states that it remembers. A larger program is refused."""
PATTERNS_MAX = 20
"""Compiled patterns that are kept."""
SHARE_STEPS_MAX = 2_500_000
"""Instructions that RE2 may follow for one share of names: 1 to 3 ns each, so 7 ms at most, and mostly a tenth."""
NAME_STEPS = 500
"""The cost of matching a name, beside that of its characters."""
COMPILE_STEPS_A_CHAR, COMPILE_STEPS_A_UNICODE_CLASS = 1000, 40_000
"""The cost of compiling a pattern, in the same unit."""

REPEAT = re.compile(r"\{(\d{1,4})(?:,(\d{0,4}))?\}", re.ASCII)
SIGNIFICANT = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\(?P<escaped>.)|\[\^?\]?(?:\\.|\[:\^?\w++:\]|[^\]\\])*+\]|"
    r"\(\?P?<(?P<name>\w++)>",
    re.DOTALL,
)
"""Tells escapes and the names of groups from what is quoted or within a class, in a pattern that RE2 has read."""

DESCRIPTIONS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "trailing \\": "trailing backslash at end of expression",
    "invalid perl operator: (?<": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid named capture group": "invalid named capture",
    "pattern too large - compile failed": "too large",
}
"""How RE2's errors begin, and re2j's words for the same, where these differ."""


class Regexp(Protocol):
    """As much of a compiled pattern of the module `re2` as is used here."""

    programsize: int

    def fullmatch(self, text: bytes) -> object | None:
        """Return the match if the whole text matches, else None."""


class NamePattern:
    """A compiled pattern: see `compiled`."""

    __slots__ = ("_regexp", "_steps_a_byte")

    def __init__(self, regexp: Regexp) -> None:
        self._regexp, self._steps_a_byte = regexp, regexp.programsize

    def matching(self, names: Iterable[str]) -> list[str]:
        """The names that match, in order."""
        matches = self._regexp.fullmatch
        return [name for name in names if matches(name.encode()) is not None]

    def shares(self, names: Iterable[str]) -> Iterator[list[str]]:
        """Cut names into lists that can be matched within SHARE_STEPS_MAX each; one that takes more is alone."""
        share: list[str] = []
        steps = 0
        for name in names:
            more = self.steps(name)
            if share and steps + more > SHARE_STEPS_MAX:
                yield share
                share, steps = [], 0
            share.append(name)
            steps += more
        if share:
            yield share

    def steps(self, name: str) -> int:
        """The most instructions that matching this name can follow."""
        return NAME_STEPS + self._steps_a_byte * len(name.encode())


@lru_cache(PATTERNS_MAX)
def compiled(pattern: str) -> NamePattern:
    """Compile a pattern. ApiError INVALID_REGULAR_EXPRESSION: it is none, or too large."""
    if len(pattern) > PATTERN_CHARS_MAX:
        raise refused(pattern[:PATTERN_CHARS_MAX], f"longer than {PATTERN_CHARS_MAX} characters")
    if unicode_classes(pattern) > UNICODE_CLASSES_MAX:
        raise refused(pattern, f"more than {UNICODE_CLASSES_MAX} Unicode classes")
    if repeats(pattern) > REPEATS_MAX:
        raise refused(pattern, "too large")
    re2: Any = import_module("re2")  # 5 ms, which a broker without patterns does not spend
    options = re2.Options()
    options.max_mem, options.log_errors, options.never_capture = PROGRAM_BYTES_MAX, False, True
    try:
        regexp: Regexp = re2.compile(pattern.encode(), options)
    except re2.error as error:
        raise refused(pattern, described(error.args[0].decode(errors="replace"))) from None
    finally:
        re2.purge()  # its own cache would keep 128
    check_like_re2j(pattern)
    return NamePattern(regexp)


def compile_steps(pattern: str) -> int:
    """The most that it costs to compile a pattern, in steps of matching."""
    return COMPILE_STEPS_A_CHAR * len(pattern) + COMPILE_STEPS_A_UNICODE_CLASS * unicode_classes(pattern)


def unicode_classes(pattern: str) -> int:
    """How many classes such as `\\pL` the pattern may have."""
    return pattern.count("\\p") + pattern.count("\\P")


def repeats(pattern: str) -> int:
    """Add up how often repetitions with a count may repeat, each by itself. RE2 refuses counts of five digits."""
    return sum(int(most or least) for least, most in REPEAT.findall(pattern))


def check_like_re2j(pattern: str) -> None:
    """Refuse what RE2 reads and re2j does not. ApiError INVALID_REGULAR_EXPRESSION."""
    names: set[str] = set()
    for found in SIGNIFICANT.finditer(pattern):
        name = found["name"]
        if found["escaped"] == "C":
            raise refused(pattern, "invalid escape sequence")
        if name in names:
            raise refused(pattern, "duplicate capture group name")
        if name is not None:
            names.add(name)


def described(error: str) -> str:
    """Return the error that RE2 found, in re2j's words."""
    known = (words for start, words in DESCRIPTIONS.items() if error.startswith(start))
    return next(known, error.split(": ", 1)[0])


def refused(pattern: str, why: str) -> ApiError:
    """INVALID_REGULAR_EXPRESSION, in the words of Kafka's ConsumerGroupHeartbeat; other responses have no message."""
    return ApiError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {why}.",
    )
