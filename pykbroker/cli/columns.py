"""Tables on stdout."""

from __future__ import annotations

from collections.abc import Sequence

import click


def print_columns(rows: Sequence[Sequence[object]]) -> None:
    """Print rows in columns, each as wide as its longest word."""
    texts = [[str(word) for word in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        click.echo("  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip())
