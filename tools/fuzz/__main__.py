"""The command of the fuzzer: fuzz for a time, or replay inputs.

After a finding, the command prints the inputs to stdout and exits with 1.
"""

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
from tools.fuzz.logins import fuzz_logins


@click.command()
@click.option("--seconds", default=60.0, show_default=True, help="The time to run, in seconds.")
@click.option("--seed", default=1, show_default=True, help="The seed of the random generator.")
@click.option(
    "--corpus", type=click.Path(path_type=Path, file_okay=False), help="The directory for inputs that reach new code."
)
@click.option(
    "--replay",
    "file",
    type=click.File(),
    help="Replay the inputs in this file instead: one per line, in hexadecimal digits.",
)
@click.option("--logins", is_flag=True, help="Send log-ins to a listener with SASL instead, without a corpus.")
def main(seconds: float, seed: int, corpus: Path | None, file: IO[str] | None, logins: bool) -> None:
    """Fuzz a broker in this process, guided by code coverage."""
    logging.basicConfig(level=logging.CRITICAL)
    if logins:
        logins_end_s = time.monotonic() + seconds
        print(f"{trio.run(fuzz_logins, seed, lambda: time.monotonic() > logins_end_s)} sequences; no finding")
        return
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
    """Return a summary of the exploration in one line."""
    judged = "a finding: pass the lines on stdout to --replay" if found else "no finding"
    return f"{explorer.inputs} inputs, {len(explorer.edges.seen)} edges, {len(explorer.corpus)} in the corpus; {judged}"


if __name__ == "__main__":
    main()
