"""Tables as Kafka's tools print them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def table(columns: Mapping[str, int], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows below the headings of columns, each of which has its least width. None is printed as a hyphen."""
    texts = [list(columns), *(["-" if cell is None else str(cell) for cell in row] for row in rows)]
    widths = [
        max(least, *map(len, cells)) for least, cells in zip(columns.values(), zip(*texts, strict=True), strict=True)
    ]
    for row in texts:
        print(" ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
