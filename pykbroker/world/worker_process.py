"""The other end of a worker's pipes: makes the machine that is named by its module and class, and lets it answer.

Started as a program. It ends when nobody writes to it any more.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import BinaryIO

SIZE_BYTES = 4
NICENESS = 10


def answer(module: str, name: str, incoming: BinaryIO, outgoing: BinaryIO) -> None:
    """Until `incoming` ends. A message, and its answer, stands behind its size."""
    machine = getattr(importlib.import_module(module), name)()
    while len(size := incoming.read(SIZE_BYTES)) == SIZE_BYTES:
        said = machine.handle(incoming.read(int.from_bytes(size, "big")))
        outgoing.write(len(said).to_bytes(SIZE_BYTES, "big") + said)
        outgoing.flush()


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):  # terminals and service managers send them to parent and child
        signal.signal(number, signal.SIG_IGN)  # the parent ends the child
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    answer(sys.argv[1], sys.argv[2], sys.stdin.buffer, sys.stdout.buffer)
