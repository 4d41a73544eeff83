"""A broker in its own process, with its CPU time and memory from ``/proc``."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of all threads of a process so far, user and system, in ticks of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def proportional_bytes(pid: int) -> int:
    """Return the memory of a process, with its share of the pages that several processes have (PSS)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024


class Child:
    """A child process. Its output goes to a file, so that the process never waits for a reader of a pipe."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
            )
        self.pid = self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process is still running."""
        return self._process.poll() is None

    def cpu_seconds(self) -> float:
        """Return the CPU time of all threads so far, user and system, in ticks of 10 ms."""
        return cpu_seconds(self.pid)

    def memory_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * PAGE_BYTES

    def descendants(self) -> list[int]:
        """Return the pids of this process and of all processes below it."""
        found = [self.pid]
        for pid in found:
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                found += map(int, children.read_text().split())
        return found

    def stop(self, timeout_s: float = 30) -> int:
        """Send SIGTERM and wait; return the exit status. Kill the process if it does not end in time."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """Send SIGKILL, as a crash would; return the exit status."""
        self._process.kill()
        return self._process.wait()

    def tail(self, lines: int = 20) -> str:
        """Return the last lines of the output, for an error message."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
