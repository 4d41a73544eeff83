"""A process that has imported all clients, and forks a process for each program that stdin names.

Each line of stdin is JSON: the number, the kind and the face of a program, its cluster, its topic, and a directory for
its report and its errors. Each line of stdout is the number of a program and what has happened to it: `pid PID`,
`ready`, or `ended STATUS`. A process between this one and the program waits for its end.
"""

from __future__ import annotations

import atexit
import faulthandler
import json
import os
import signal
import sys
from functools import partial
from pathlib import Path

from tools.interrupts.programs import CONSUMERS, PRODUCERS, Program

KINDS: dict[str, dict[str, type[Program]]] = {"producer": {**PRODUCERS}, "consumer": {**CONSUMERS}}
STACKS = signal.SIGUSR1
"""The signal after which a program writes the stacks of its threads to its errors."""


def say(number: int, news: str) -> None:
    """Write a line, which is short enough to arrive as a whole."""
    os.write(1, f"{number} {news}\n".encode())


def keep(number: int) -> bool:
    """Fork a program, and return whether this is its process.

    The other process waits for the program, and then ends.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if not pid:
        say(number, f"pid {os.getpid()}")
        return True
    _, status = os.waitpid(pid, 0)
    say(number, f"ended {os.waitstatus_to_exitcode(status)}")
    os._exit(0)


def run(number: int, kind: str, face: str, servers: str, topic: str, directory: str) -> None:
    """Run a program in this process. Its report is the last thing that happens before the interpreter ends."""
    errors = os.open(Path(directory, f"{number}.errors"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(errors, 2)
    faulthandler.register(STACKS)
    program = KINDS[kind][face](number, servers, topic, partial(say, number, "ready"))
    atexit.register(program.report, Path(directory, f"{number}.json"))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores SIGINT
    program.run()


def main() -> None:
    """Fork a process for each line of stdin."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        number, *given = json.loads(line)
        if not os.fork() and keep(number):
            run(number, *given)
            return


if __name__ == "__main__":
    main()
