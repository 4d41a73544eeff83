"""Numbers as text for a person."""

from __future__ import annotations

from datetime import UTC, datetime

BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
THOUSANDS = ("", "k", "M", "G", "T")
MS_OF = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1))


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as 1 gap or 1,200 gaps."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def size(number: float) -> str:
    """Return a number of bytes, such as 1.5 MiB."""
    power = 0
    while abs(number) >= 1024 and power < len(BINARY) - 1:
        number, power = number / 1024, power + 1
    return f"{_digits(number) if power else f'{number:.0f}'} {BINARY[power]}"


def short(number: float) -> str:
    """Return a number with three digits, such as 1.23 M."""
    power = 0
    while abs(number) >= 1000 and power < len(THOUSANDS) - 1:
        number, power = number / 1000, power + 1
    return f"{_digits(number)} {THOUSANDS[power]}".rstrip()


def share(part: float, whole: float) -> str:
    """Return a part as a percentage. A part that is neither nothing nor all never looks like it."""
    if not whole:
        return "-"
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "< 0.1 %"
    if 99.9 < percent < 100:
        return "> 99.9 %"
    return f"{percent:.0f} %" if percent in (0, 100) or percent >= 10 else f"{percent:.1f} %"


def duration(ms: float) -> str:
    """Return a duration in its two largest units, such as 2 d 4 h."""
    left, parts = round(ms), []
    for unit, unit_ms in MS_OF:
        number, left = divmod(left, unit_ms)
        if number:
            parts.append(f"{number} {unit}")
        if parts and (number == 0 or len(parts) == 2):
            break
    return " ".join(parts) or "0 ms"


def moment(ms: int) -> str:
    """Return a time in UTC, such as 2026-11-24 15:08:50."""
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):  # a timestamp of a producer may be any number
        return f"{ms} ms"


def _digits(number: float) -> str:
    """Return a number below 1,024 with three digits, without zeros at the end."""
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"
