"""The program of a worker's process. It constructs the state machine of the given class, and replies to messages.

The program ends without an error when its pipes are closed, since its parent has then ended.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import BinaryIO

SIZE_BYTES = 4
NICENESS = 10
"""A worker leaves the CPU to the broker's event loop if both have work."""


def answer(module: str, name: str, incoming: BinaryIO, outgoing: BinaryIO) -> None:
    """Reply to messages until `incoming` ends, even within a message, or until the reader of `outgoing` has closed it.

    Each message and each reply is preceded by its size.
    """
    machine = getattr(importlib.import_module(module), name)()
    while len(size := incoming.read(SIZE_BYTES)) == SIZE_BYTES:
        message = incoming.read(int.from_bytes(size, "big"))
        if len(message) < int.from_bytes(size, "big"):
            return
        reply = machine.handle(message)
        try:
            outgoing.write(len(reply).to_bytes(SIZE_BYTES, "big") + reply)
            outgoing.flush()
        except BrokenPipeError:
            return


if __name__ == "__main__":
    # Terminals and service managers send these signals to parent and child.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the child ends when the parent closes its pipes
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    answer(sys.argv[1], sys.argv[2], sys.stdin.buffer, sys.stdout.buffer)
    os._exit(0)  # a normal exit would flush the buffer of the broken pipe again, and fail
