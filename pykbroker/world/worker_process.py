"""The other end of a worker's pipes: makes the machine that is named by its module and class, and lets it answer.

Started as a program. It ends when nobody writes to it, or reads from it, any more: its parent has ended or was killed,
which is no error of its own.
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
    """Answer until `incoming` ends, in a message or before one, or `outgoing` is closed at its other end.

    A message, and its answer, stands behind its size.
    """
    machine = getattr(importlib.import_module(module), name)()
    while len(size := incoming.read(SIZE_BYTES)) == SIZE_BYTES:
        message = incoming.read(int.from_bytes(size, "big"))
        if len(message) < int.from_bytes(size, "big"):
            return
        said = machine.handle(message)
        try:
            outgoing.write(len(said).to_bytes(SIZE_BYTES, "big") + said)
            outgoing.flush()
        except BrokenPipeError:
            return


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):  # terminals and service managers send them to parent and child
        signal.signal(number, signal.SIG_IGN)  # the parent ends the child
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    answer(sys.argv[1], sys.argv[2], sys.stdin.buffer, sys.stdout.buffer)
    os._exit(0)  # what is left in the buffer of a broken pipe would be written, and refused, once more
