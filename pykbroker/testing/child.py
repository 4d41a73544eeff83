"""The program of a broker in a child process. It ends with its parent, however the parent ends.

A forked process of the parent may keep the pipe open after the parent has ended. The pid of the parent is therefore
checked, too.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any, BinaryIO

from pykbroker.core.errors import StartError
from pykbroker.processes.messages import Message, StartRefused, Stopped, tell
from pykbroker.testing.broker_thread import BrokerThread
from pykbroker.testing.options import BrokerOptions
from pykbroker.world.temporary import remove_orphan, remove_tree

PARENT_CHECK_S = 0.5


def main(directory: str, incoming: BinaryIO, outgoing: int) -> None:
    """Start and stop a broker as the parent orders, until the parent has ended or orders the end.

    A temporary data directory is then removed: a parent that was killed could not remove it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to parent and child; the parent ends the child
    importlib.import_module("pykbroker.broker")  # before the first order: the brokers of a cluster import it at once
    broker, is_temporary, is_member = BrokerThread(directory), False, False
    for order in orders(incoming):
        answer: Message = Stopped()
        if "start" in order:
            options = BrokerOptions(**order["start"])
            is_temporary, is_member = options.data_dir is None, options.has_other_nodes
            try:
                answer = broker.start(options)
            except StartError as error:
                answer = StartRefused(str(error))
        else:
            broker.stop()
        tell(outgoing, answer)
    if is_temporary and is_member:  # an orderly stop would wait for a controller that has ended, too
        remove_orphan(directory)
        return
    broker.close()
    if is_temporary:
        remove_tree(directory)


def orders(incoming: BinaryIO) -> Iterator[dict[str, Any]]:
    """Yield orders until the parent has ended or orders the end."""
    parent, lines = os.getppid(), queue.SimpleQueue[bytes]()
    threading.Thread(target=read_lines, args=(incoming, lines), daemon=True).start()
    while os.getppid() == parent:
        try:
            line = lines.get(timeout=PARENT_CHECK_S)
        except queue.Empty:
            continue
        order = json.loads(line) if line else {"end": True}
        if "end" in order:
            return
        yield order


def read_lines(incoming: BinaryIO, lines: queue.SimpleQueue[bytes]) -> None:
    """Put each line into the queue, and an empty one at the end."""
    while line := incoming.readline():
        lines.put(line)
    lines.put(b"")


if __name__ == "__main__":
    main(sys.argv[1], sys.stdin.buffer, int(sys.argv[3]))  # after PIPE_OPTION
    os._exit(0)  # a normal exit would wait for the thread that reads stdin
