"""The command: explore for a time, or play inputs again. Exit code 1 and the inputs on stdout for a finding."""

from __future__ import annotations

import logging
import sys
import time
import traceback
from pathlib import Path
from typing import IO

import click
import trio

from tools.fuzz.explore import Explorer, replay


@click.command()
@click.option("--seconds", default=60.0, show_default=True, help="How long to go on.")
@click.option("--seed", default=1, show_default=True, help="Of the dice.")
@click.option("--corpus", type=click.Path(path_type=Path, file_okay=False), help="Where to keep what reaches new code.")
@click.option("--replay", "file", type=click.File(), help="Play these inputs instead, hexadecimal digits, a line each.")
def main(seconds: float, seed: int, corpus: Path | None, file: IO[str] | None) -> None:
    """Fuzz a broker in this process, guided by the code that is reached."""
    logging.basicConfig(level=logging.CRITICAL)
    if file is not None:
        trio.run(replay, [bytes.fromhex(line) for line in file if line.strip()])
        return
    if corpus is not None:
        corpus.mkdir(parents=True, exist_ok=True)
    explorer = Explorer(seed, corpus)
    try:
        until_s = time.monotonic() + seconds
        trio.run(explorer.run, lambda: time.monotonic() > until_s)
    except Exception as error:  # noqa: BLE001 - whatever ends a broker is a finding
        print("\n".join(data.hex() for data in explorer.history))
        print("".join(traceback.format_exception(error)), file=sys.stderr)
        print(summary(explorer, found=True), file=sys.stderr)
        sys.exit(1)
    print(summary(explorer, found=False))


def summary(explorer: Explorer, *, found: bool) -> str:
    """Return one line about the exploration."""
    judged = "a finding: play the lines on stdout again with --replay" if found else "all held"
    return f"{explorer.inputs} inputs, {len(explorer.edges.seen)} edges, {len(explorer.corpus)} in the corpus; {judged}"


if __name__ == "__main__":
    main()
