"""The elements of a drawing in SVG. Colours come from the classes of the page, which has a light and a dark theme."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def drawing(width: float, height: float, title: str, parts: Iterable[str], classes: str = "plot") -> str:
    """Return a drawing that fills its place, with a title for screen readers."""
    label = escape(title, quote=True)
    size = f'viewBox="0 0 {number(width)} {number(height)}"'
    return f'<svg class="{classes}" {size} role="img" aria-label="{label}">{"".join(parts)}</svg>'


def text(x: float, y: float, words: str, classes: str = "", anchor: str = "start") -> str:
    """Return a line of text, whose base line is at y."""
    given = f' class="{classes}"' if classes else ""
    return f'<text x="{number(x)}" y="{number(y)}" text-anchor="{anchor}"{given}>{escape(words)}</text>'


def rect(
    x: float,
    y: float,
    width: float,
    height: float,
    classes: str,
    tip: str = "",
    radius: float = 0,
    opacity: float | None = None,
) -> str:
    """Return a rectangle. `tip` is shown when the pointer rests on it."""
    rounded = f' rx="{number(radius)}"' if radius else ""
    faint = "" if opacity is None else f' fill-opacity="{number(opacity)}"'
    shape = f'x="{number(x)}" y="{number(y)}" width="{number(max(width, 0))}" height="{number(max(height, 0))}"'
    return f'<rect class="{classes}" {shape}{rounded}{faint}>{_title(tip)}</rect>'


def line(x1: float, y1: float, x2: float, y2: float, classes: str = "grid") -> str:
    """Return a straight line."""
    ends = f'x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"'
    return f'<line class="{classes}" {ends}/>'


def path(commands: str, classes: str, tip: str = "") -> str:
    """Return a path of these commands."""
    return f'<path class="{classes}" d="{commands}">{_title(tip)}</path>'


def bar_path(x: float, y: float, width: float, height: float, radius: float = 3) -> str:
    """Return the commands of a horizontal bar with a flat end at its base line and a round one at its value."""
    round_ = min(radius, width, height / 2)
    straight = width - round_
    corner = f"a{number(round_)} {number(round_)} 0 0 1"
    return (
        f"M{number(x)} {number(y)}h{number(straight)}{corner} {number(round_)} {number(round_)}"
        f"v{number(height - 2 * round_)}{corner} {number(-round_)} {number(round_)}h{number(-straight)}z"
    )


def column_path(x: float, y: float, width: float, height: float, radius: float = 3) -> str:
    """Return the commands of a column with a flat end at its base line and a round one at its value, which is at y."""
    round_ = min(radius, height, width / 2)
    straight = height - round_
    corner = f"a{number(round_)} {number(round_)} 0 0 1"
    return (
        f"M{number(x)} {number(y + height)}v{number(-straight)}{corner} {number(round_)} {number(-round_)}"
        f"h{number(width - 2 * round_)}{corner} {number(round_)} {number(round_)}v{number(straight)}z"
    )


def number(value: float) -> str:
    """Return a coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"


def _title(tip: str) -> str:
    return f"<title>{escape(tip)}</title>" if tip else ""
