"""Strategies of `auto.offset.reset`: where a consumer begins without a committed offset (KIP-1106 adds by_duration)."""

from __future__ import annotations

import re
from typing import NamedTuple

from wire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)(?:[.,](?P<part>\d{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_PREFIX = "by_duration:"


class ResetStrategy(NamedTuple):
    """A strategy: `earliest`, `latest`, `none`, or `by_duration` with a duration in ms."""

    name: str
    duration_ms: int = 0

    def timestamp(self, wall_ms: int) -> int | None:
        """Return the timestamp to ask ListOffsets for, or None if the strategy is `none`."""
        match self.name:
            case "earliest":
                return EARLIEST_TIMESTAMP
            case "latest":
                return LATEST_TIMESTAMP
            case "by_duration":
                return max(0, wall_ms - self.duration_ms)
        return None


EARLIEST, LATEST, NO_RESET = ResetStrategy("earliest"), ResetStrategy("latest"), ResetStrategy("none")


def parse_offset_reset(text: str) -> ResetStrategy:
    """Return the strategy of a value of `auto.offset.reset`. Raise ValueError for any other text.

    The duration after `by_duration:` is in ISO 8601, such as `PT1H30M` or `P7D`, and not negative.
    """
    name = text
    for strategy in (EARLIEST, LATEST, NO_RESET):
        if name == strategy.name:
            return strategy
    if name.startswith(_PREFIX):
        found = _DURATION.fullmatch(text[len(_PREFIX) :])
        if found is None or not any(part is not None for part in found.groups()):
            raise ValueError(f"auto.offset.reset={text}: {text[len(_PREFIX) :]} is no ISO 8601 duration, such as PT1H")
        parts = {unit: int(number or 0) for unit, number in found.groupdict().items() if unit != "part"}
        seconds = ((parts["days"] * 24 + parts["hours"]) * 60 + parts["minutes"]) * 60 + parts["seconds"]
        return ResetStrategy("by_duration", seconds * 1000 + int((found["part"] or "").ljust(3, "0")[:3]))
    raise ValueError(f"auto.offset.reset={text}: use earliest, latest, none or by_duration:PT1H")
