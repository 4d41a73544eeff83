"""The ticks of a time axis, at round times."""

from __future__ import annotations

from datetime import UTC, datetime

TICKS_MAX = 8
MS_STEPS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(1000 * each for each in (1, 2, 5, 10, 15, 30)),
    *(60_000 * each for each in (1, 2, 5, 10, 15, 30)),
    *(3_600_000 * each for each in (1, 2, 3, 6, 12)),
    *(86_400_000 * each for each in (1, 2, 7, 14, 28, 91, 182, 365)),
)
"""The distances between the ticks of a time axis."""
DAY_MS = 86_400_000


def time_ticks(start_ms: int, end_ms: int) -> list[tuple[int, str]]:
    """Return round times between two others with their labels, the first of each day with its date."""
    step = next((each for each in MS_STEPS if (end_ms - start_ms) / each <= TICKS_MAX), MS_STEPS[-1])
    while (end_ms - start_ms) / step > TICKS_MAX:
        step *= 2
    found: list[tuple[int, str]] = []
    day = None
    for ms in range(-(-start_ms // step) * step, end_ms + 1, step):
        found.append((ms, _label(ms, step, is_new_day=ms // DAY_MS != day)))
        day = ms // DAY_MS
    return found


def _label(ms: int, step: int, *, is_new_day: bool) -> str:
    try:
        time = datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):  # a timestamp of a producer may be any number
        return f"{ms}"
    date = f"{time.day} {time:%b}"
    if step >= DAY_MS:
        return f"{date} {time:%Y}" if step >= 28 * DAY_MS else date
    if step < 1000:
        return f"{time:%H:%M:%S}.{ms % 1000:03}"
    clock = f"{time:%H:%M:%S}" if step < 60_000 else f"{time:%H:%M}"
    return f"{date} {clock}" if is_new_day else clock
