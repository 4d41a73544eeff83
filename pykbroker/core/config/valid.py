"""Constraints on config values beyond their type. `str()` returns a readable description of a constraint."""

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
    """A constraint on the values of a config. `str()` returns a readable description."""

    def check(self, name: str, value: Value) -> None:
        """Raise ApiError INVALID_CONFIG for a value that is not allowed."""


class Between(msgspec.Struct, frozen=True):
    """The constraint for numbers from `low` to `high`, both included. The value `extra` is allowed as well."""

    low: float
    high: float | None = None
    extra: int | None = None

    def check(self, name: str, value: Value) -> None:
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
    """The constraint for one of several words."""

    words: tuple[str, ...]
    any_case: bool = False

    def check(self, name: str, value: Value) -> None:
        word = str(value)
        if word not in self.words and not (self.any_case and word.upper() in map(str.upper, self.words)):
            how = " (case insensitive)" if self.any_case else ""
            raise invalid(name, value, f"String must be one of{how}: {', '.join(self.words)}")

    def __str__(self) -> str:
        return f"{'(case insensitive) ' if self.any_case else ''}[{', '.join(self.words)}]"


class ListOf(msgspec.Struct, frozen=True):
    """The constraint for a list without empty words (KIP-1161), of the given words if any. Duplicates are removed."""

    words: tuple[str, ...] = ()
    needed: bool = False

    def check(self, name: str, value: Value) -> None:
        """Raise ApiError INVALID_CONFIG for the first fault of the list."""
        words = value if isinstance(value, tuple) else ()
        if self.needed and not words:
            allowed = str(self) or "any non-empty value"
            raise ApiError(
                ErrorCode.INVALID_CONFIG, f"Configuration '{name}' must not be empty. Valid values include: {allowed}"
            )
        if "" in words:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Configuration '{name}' values must not be empty.")
        for word in words if self.words else ():
            OneOf(self.words).check(name, word)

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}]" if self.words else ""


class NonEmpty(msgspec.Struct, frozen=True):
    """The constraint for a string that is unset or not empty."""

    def check(self, name: str, value: Value) -> None:
        if value == "":
            raise invalid(name, value, "String must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"


class Endpoints(msgspec.Struct, frozen=True):
    """The constraint for the quorum's addresses, each in the form of `example`.

    Kafka documents the list as non-empty, but accepts an empty one. It accepts a voter without a host, too.
    """

    example: str

    def check(self, name: str, value: Value) -> None:
        words = value if isinstance(value, tuple) else ()
        pattern = re.compile(r"[0-9]+@[^@]*:[0-9]+" if "@" in self.example else r"[^@]+:[0-9]+")
        if not all(map(pattern.fullmatch, words)):
            raise invalid(name, value, f"Each entry must be of the form {self.example}")

    def __str__(self) -> str:
        return "non-empty list"


class NonNull(msgspec.Struct, frozen=True):
    """The constraint for any string. A config that is read from a text is never null."""

    def check(self, name: str, value: Value) -> None:
        """Accept every text."""

    def __str__(self) -> str:
        return "non-null string"


class ThrottledReplicas(msgspec.Struct, frozen=True):
    """The constraint for `*`, an empty list, or partition:broker pairs."""

    def check(self, name: str, value: Value) -> None:
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
    """The constraint for the start position of a share group (KIP-932): a word, or an ISO 8601 duration."""

    words: tuple[str, ...]

    def check(self, name: str, value: Value) -> None:
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
    """Return the constraint for numbers from `low` on."""
    return Between(low)
