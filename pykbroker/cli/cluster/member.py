"""The program of one broker of `pykbroker cluster`: `pykbroker start` that stops in order once its standard input ends.

The standard input is a pipe that only other processes of the cluster hold open. It ends with them, however they end.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from pykbroker.cli.main import pykbroker
from pykbroker.cli.signals import SIGNAL_EXIT_CODE
from pykbroker.world.temporary import remove_orphan

TEMPORARY, KEPT = "temporary", "kept"


def main(data_dir: str, kind: str, *options: str) -> None:
    """Run `pykbroker start` on a data directory. Remove a temporary one if the supervisor cannot do it any more."""
    orphaned = threading.Event()
    # `start` has its own handler, but only once it is imported. The default would end the process before `finally`.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(SIGNAL_EXIT_CODE + number))
    try:
        threading.Thread(target=stop_at_end_of_input, args=(orphaned,), daemon=True).start()  # it may signal at once
        pykbroker(["start", "--data-dir", data_dir, *options], prog_name="pykbroker")
    finally:
        if orphaned.is_set() and kind == TEMPORARY:
            remove_orphan(data_dir)


def stop_at_end_of_input(orphaned: threading.Event) -> None:
    """Wait for the end of the standard input, and stop this process as SIGTERM does."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    orphaned.set()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(*sys.argv[1:])
