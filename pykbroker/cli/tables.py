"""Tables on stdout: columns in a pipe, a drawn table on a terminal if `rich` is installed, or a JSON document."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from pykbroker.cli.ask import refuse

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")


class Table:
    """Rows under columns. A column's name is its key in JSON, and its heading in upper case.

    A cell may be a text, a number, a boolean, None, or a list of numbers.
    """

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.columns, self.rows = columns, rows

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as JSON objects."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def print(self) -> None:
        """Print the table: drawn on a terminal if `rich` is installed, otherwise in columns."""
        texts = [[column.replace("_", " ").upper() for column in self.columns]]
        texts += [[cell_text(cell) for cell in row] for row in self.rows]
        if not (sys.stdout.isatty() and drawn(texts)):
            print_columns(texts)

    def show(self, *, as_json: bool, refusals: Sequence[str] = ()) -> None:
        """Print the table or, with `as_json`, an array of its records. An empty table is not printed with refusals.

        click.ClickException: there are refusals, which are the reasons why rows are missing.
        """
        if as_json:
            print_json(self.records())
        elif self.rows or not refusals:
            self.print()
        refuse(refusals)


def counted(count: int, noun: str) -> str:
    """Return a number of things in words."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def print_json(document: Any) -> None:
    """Print a JSON document."""
    click.echo(json.dumps(document, indent=2))


def print_columns(texts: Sequence[Sequence[str]]) -> None:
    """Print rows in columns, each as wide as its longest word."""
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        click.echo("  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip())


def cell_text(cell: Any) -> str:
    """Return a cell as a table prints it. Control characters of a text, which a client chose, are escaped."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, (list, tuple)):
        return ",".join(map(str, cell))
    text = str(cell)
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def drawn(texts: Sequence[Sequence[str]]) -> bool:
    """Draw a table with `rich`. Return False if that is not installed."""
    try:
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text
    except ImportError:
        return False
    table = RichTable(box=SIMPLE_HEAD, pad_edge=False)
    for heading in texts[0]:
        table.add_column(heading, overflow="fold")
    for row in texts[1:]:
        table.add_row(*map(Text, row))
    Console().print(table)
    return True
