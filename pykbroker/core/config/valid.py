"""Which values a config takes, beyond being of its type. `str()` of each is the note that people read."""

from __future__ import annotations

import re
from typing import Protocol

import msgspec

from pykbroker.core.config.type import Value, invalid
from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode

DURATION = re.compile(r"P(?=.)([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]{1,9})?S)?)?")
THROTTLED_REPLICA = re.compile(r"[0-9]+:[0-9]+")


class Valid(Protocol):
    """Which values of its type a config takes; `str()` of it is for people."""

    def check(self, name: str, value: Value) -> None:
        """ApiError INVALID_CONFIG for a value that is not allowed."""


class Between(msgspec.Struct, frozen=True):
    """Numbers from `low` to `high`, both included; `extra` is allowed besides."""

    low: float
    high: float | None = None
    extra: int | None = None

    def check(self, name: str, value: Value) -> None:
        """Refuse what lies outside."""
        if not isinstance(value, int | float) or value == self.extra:
            return
        if self.extra is not None and not self.low <= value <= (self.high or value):
            raise invalid(name, value, f"Value must be between {self.low} and {self.high} or equal to {self.extra}")
        if value < self.low:
            raise invalid(name, value, f"Value must be at least {self.low}")
        if self.high is not None and value > self.high:
            raise invalid(name, value, f"Value must be no more than {self.high}")

    def __str__(self) -> str:
        high = "" if self.high is None else f",{self.high}"
        return f"[{self.low},...{high}]" + ("" if self.extra is None else f" or {self.extra}")


class OneOf(msgspec.Struct, frozen=True):
    """One of these words."""

    words: tuple[str, ...]
    any_case: bool = False

    def check(self, name: str, value: Value) -> None:
        """Refuse any other word."""
        word = str(value)
        if word not in self.words and not (self.any_case and word.upper() in map(str.upper, self.words)):
            how = " (case insensitive)" if self.any_case else ""
            raise invalid(name, value, f"String must be one of{how}: {', '.join(self.words)}")

    def __str__(self) -> str:
        return f"{'(case insensitive) ' if self.any_case else ''}[{', '.join(self.words)}]"


class ListOf(msgspec.Struct, frozen=True):
    """A list without empty words (KIP-1161); of these words, if any are given. Of duplicates one is read."""

    words: tuple[str, ...] = ()
    needed: bool = False

    def check(self, name: str, value: Value) -> None:
        """Refuse the list for its first fault."""
        words = value if isinstance(value, tuple) else ()
        if self.needed and not words:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Configuration '{name}' must not be empty")
        if "" in words:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Configuration '{name}' values must not be empty.")
        for word in words if self.words else ():
            OneOf(self.words).check(name, word)

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}]" if self.words else ""


class NonEmpty(msgspec.Struct, frozen=True):
    """A string that is either unset or has something in it."""

    def check(self, name: str, value: Value) -> None:
        """Refuse the empty one."""
        if value == "":
            raise invalid(name, value, "String must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"


class Endpoints(msgspec.Struct, frozen=True):
    """The quorum's addresses, each of the form of `example`; Kafka's note says non-empty, but none are allowed."""

    example: str

    def check(self, name: str, value: Value) -> None:
        """Refuse a word of another form."""
        words = value if isinstance(value, tuple) else ()
        pattern = re.compile(r"([0-9]+@)[^@]+:[0-9]+" if "@" in self.example else r"[^@]+:[0-9]+")
        if not all(map(pattern.fullmatch, words)):
            raise invalid(name, value, f"Each entry must be of the form {self.example}")

    def __str__(self) -> str:
        return "non-empty list"


class NonNull(msgspec.Struct, frozen=True):
    """Any string; a config has no null once it was read from text."""

    def check(self, name: str, value: Value) -> None:
        """Every text will do."""

    def __str__(self) -> str:
        return "non-null string"


class ThrottledReplicas(msgspec.Struct, frozen=True):
    """`*`, nothing, or partition:broker pairs."""

    def check(self, name: str, value: Value) -> None:
        """Refuse a word that is no pair."""
        words = value if isinstance(value, tuple) else ()
        if words != ("*",) and not all(map(THROTTLED_REPLICA.fullmatch, words)):
            raise invalid(
                name,
                f"[{', '.join(words)}]",
                f"{name} must be the literal '*' or a list of replicas in the following format: {self}",
            )

    def __str__(self) -> str:
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


class OffsetReset(msgspec.Struct, frozen=True):
    """Where a share group begins (KIP-932): a word, or a time back from now as an ISO 8601 duration."""

    words: tuple[str, ...]

    def check(self, name: str, value: Value) -> None:
        """Refuse other words and durations that do not parse."""
        kind, _, duration = str(value).partition(":")
        if not (DURATION.fullmatch(duration) if kind == "by_duration" else value in self.words):
            raise invalid(
                name,
                value,
                f"Invalid value `{value}` for configuration {name}. The value must be either "
                "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
            )

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}, by_duration:PnDTnHnMn.nS]"


def at_least(low: int) -> Between:
    """Numbers from `low` on."""
    return Between(low)
