"""Ranges of versions in Kafka's notation."""

from functools import cache
from typing import NamedTuple

VERSION_MAX = 32_767


class Versions(NamedTuple):
    """The versions from `first` to `last`, both included. The range is empty if `last` is smaller than `first`."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


@cache
def parse_versions(text: str) -> Versions:
    """Return the range of a text such as "3+", "3-13", "7" or "none"."""
    if text == "none":
        return Versions(0, -1)
    if text.endswith("+"):
        return Versions(int(text[:-1]), VERSION_MAX)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))
