"""Regular expressions over names of topics and transactional ids, in RE2's syntax.

1. RE2 matches a name in time linear in its length, for every pattern. It refuses patterns that would need more, such as
   back references and lookaround. Kafka uses re2j, the Java port of RE2, and refuses the same patterns.
2. A pattern must match the whole name.
3. The cost of a match is known beforehand. `NamePattern.shares` splits many names into shares of bounded cost, so that
   no caller blocks the event loop for longer than one share takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode

PATTERN_CHARS_MAX = 5000
"""The longest pattern in characters.

A pattern is compiled without a pause, which takes 12 ms at most for this length.
"""
UNICODE_CLASSES_MAX = 50
r"""The largest number of Unicode classes such as `\pL` in one pattern. Each takes 0.1 ms to compile."""
REPEATS_MAX = 20_000
"""The largest sum of all repetition counts in one pattern, such as the 1000 of `a{1000}`.

A program of PROGRAM_BYTES_MAX has less than half as many instructions, but RE2 needs up to 300 ms to refuse a pattern
with 500,000 repetitions.
"""
PROGRAM_BYTES_MAX = 256 << 10
"""RE2's memory bound for one compiled pattern and its cached states. RE2 refuses a larger program."""
PATTERNS_MAX = 20
"""The number of compiled patterns in the cache."""
SHARE_STEPS_MAX = 2_500_000
"""The RE2 instructions in one share of names.

An instruction takes 1 to 3 ns, so a share takes 7 ms at most and usually a tenth of that.
"""
NAME_STEPS = 500
"""The fixed cost of matching one name, in RE2 instructions, in addition to the cost of its characters."""
COMPILE_STEPS_A_CHAR, COMPILE_STEPS_A_UNICODE_CLASS = 1000, 40_000
"""The cost of compiling a pattern, in RE2 instructions: for each character, and for each Unicode class."""

REPEAT = re.compile(r"\{(\d{1,4})(?:,(\d{0,4}))?\}", re.ASCII)
SIGNIFICANT = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\(?P<escaped>.)|\[\^?\]?(?:\\.|\[:\^?\w++:\]|[^\]\\])*+\]|"
    r"\(\?P?<(?P<name>\w++)>",
    re.DOTALL,
)
"""A pattern that finds escapes and group names in an RE2 pattern, and skips quoted text and character classes."""

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
"""The beginnings of RE2's error messages, with re2j's wording where it differs."""


class Regexp(Protocol):
    """The methods of a compiled pattern of the module `re2` that this module calls."""

    programsize: int

    def fullmatch(self, text: bytes) -> object | None:
        """Return a match object if the pattern matches the whole text, else None."""


class NamePattern:
    """A compiled pattern, made by `compiled`."""

    __slots__ = ("_regexp", "_steps_a_byte")

    def __init__(self, regexp: Regexp) -> None:
        self._regexp, self._steps_a_byte = regexp, regexp.programsize

    def matching(self, names: Iterable[str]) -> list[str]:
        """Return the names that match, in order."""
        matches = self._regexp.fullmatch
        return [name for name in names if matches(name.encode()) is not None]

    def shares(self, names: Iterable[str]) -> Iterator[list[str]]:
        """Split names into lists that cost at most SHARE_STEPS_MAX each to match.

        A name that costs more is a list of its own.
        """
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
        """Return the largest number of instructions that matching this name can take."""
        return NAME_STEPS + self._steps_a_byte * len(name.encode())


@lru_cache(PATTERNS_MAX)
def compiled(pattern: str) -> NamePattern:
    """Return the compiled pattern.

    Raise ApiError INVALID_REGULAR_EXPRESSION if it is invalid or too large, and for every pattern without RE2.
    """
    if len(pattern) > PATTERN_CHARS_MAX:
        raise refused(pattern[:PATTERN_CHARS_MAX], f"longer than {PATTERN_CHARS_MAX} characters")
    if unicode_classes(pattern) > UNICODE_CLASSES_MAX:
        raise refused(pattern, f"more than {UNICODE_CLASSES_MAX} Unicode classes")
    if repeats(pattern) > REPEATS_MAX:
        raise refused(pattern, "too large")
    re2 = engine()
    if re2 is None:
        raise refused(pattern, "the broker lacks the package google-re2")
    options = re2.Options()
    options.max_mem, options.log_errors, options.never_capture = PROGRAM_BYTES_MAX, False, True
    try:
        regexp: Regexp = re2.compile(pattern.encode(), options)
    except re2.error as error:
        raise refused(pattern, described(error.args[0].decode(errors="replace"))) from None
    finally:
        re2.purge()  # RE2's own cache would keep 128 patterns
    check_like_re2j(pattern)
    return NamePattern(regexp)


def has_engine() -> bool:
    """Whether RE2 seems to be installed. This imports nothing."""
    return find_spec("re2") is not None


def engine() -> Any | None:
    """Return the module of google-re2, or None where it is not installed, as on systems that have no wheel of it.

    The import costs 5 ms, so only a broker that needs patterns calls this.
    """
    try:
        re2 = import_module("re2")
    except ImportError:
        return None
    return re2 if hasattr(re2, "Options") else None  # pyre2 has a module of the same name, without bounds of memory


def compile_steps(pattern: str) -> int:
    """Return the most RE2 instructions that compiling a pattern can cost."""
    return COMPILE_STEPS_A_CHAR * len(pattern) + COMPILE_STEPS_A_UNICODE_CLASS * unicode_classes(pattern)


def unicode_classes(pattern: str) -> int:
    r"""Count the Unicode classes such as `\pL` that the pattern may have."""
    return pattern.count("\\p") + pattern.count("\\P")


def repeats(pattern: str) -> int:
    """Return the sum of all repetition counts in the pattern. RE2 refuses counts of five digits."""
    return sum(int(most or least) for least, most in REPEAT.findall(pattern))


def check_like_re2j(pattern: str) -> None:
    """Raise ApiError INVALID_REGULAR_EXPRESSION for syntax that RE2 accepts and re2j does not."""
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
    """Return RE2's error message in re2j's wording."""
    known = (words for start, words in DESCRIPTIONS.items() if error.startswith(start))
    return next(known, error.split(": ", 1)[0])


def refused(pattern: str, why: str) -> ApiError:
    """Return INVALID_REGULAR_EXPRESSION with the message of Kafka's ConsumerGroupHeartbeat.

    Other responses have no message.
    """
    return ApiError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {why}.",
    )
