"""A broker in its own process, as a user starts it, for tests that need a real process."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

READY_SECONDS_MAX = 30
STOP_SECONDS_MAX = 30
PYKBROKER = (sys.executable, "-m", "pykbroker")


def limited(limit: str) -> tuple[str, ...]:
    """Return the command `pykbroker` with a soft and hard `ulimit`, as in `limited("-n 128")`."""
    return ("sh", "-c", f'ulimit {limit}; exec "$@"', "sh", *PYKBROKER)


class BrokerProcess:
    """A process of `pykbroker start` with these options, on a free port of `host` that it keeps over restarts.

    `port` is that of the listener PLAINTEXT. The options may name further listeners.

    The output goes to the files `stdout` and `stderr` in `directory`, so that the process never waits for a reader.
    """

    def __init__(
        self, directory: Path, *options: str, program: Sequence[str] = PYKBROKER, host: str = "127.0.0.1"
    ) -> None:
        self.stdout, self.stderr = directory / "stdout", directory / "stderr"
        self.host, self.port = host, 0
        self._command = [*program, "start", *options]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Return the address for `bootstrap.servers`."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """Return the pid of the running process."""
        return self._running().pid

    def start(self) -> None:
        """Start the broker, and wait until it has printed its address.

        Raise RuntimeError with the output of the process if it prints no address.
        """
        self.begin()
        self.wait_ready()

    def begin(self) -> None:
        """Begin to start the broker. `wait_ready` waits for it."""
        command = [*self._command, "--listen", self.address]
        with self.stdout.open("wb") as stdout, self.stderr.open("ab") as stderr:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)

    def wait_ready(self) -> None:
        """Wait until the broker has printed its address.

        Raise RuntimeError with the output of the process if it prints no address.
        """
        process, deadline = self._running(), time.monotonic() + READY_SECONDS_MAX
        address = rf"(?:on |PLAINTEXT://){re.escape(self.host)}:(\d+)"
        while not (printed := re.search(address, self.stdout.read_text())):
            if process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{' '.join(self._command)}: no address; its output:\n{self.output()}")
            time.sleep(0.01)
        self.port = int(printed[1])

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Stop the broker with SIGTERM or another signal; return the exit code."""
        process = self._running()
        process.send_signal(number)
        try:
            return process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"the broker did not end after signal {number}; its output:\n{self.output()}") from None

    def ended(self) -> int:
        """Wait until the broker has ended by itself; return the exit code."""
        try:
            return self._running().wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"the broker has not ended; its output:\n{self.output()}") from None

    def kill(self) -> None:
        """Kill the process with SIGKILL, if it is running."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()

    def restart(self) -> None:
        """Restart the broker after `stop` or `kill`, on the same port and with the same options."""
        self.kill()
        self.start()

    def output(self) -> str:
        """Return the standard output and the log since the last start."""
        return self.stdout.read_text() + self.stderr.read_text()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the broker has not been started")
        return self._process
