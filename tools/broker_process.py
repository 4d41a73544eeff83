"""A broker in its own process, as a user starts it, for tests that need a real process."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pykbroker.processes import broker_process
from pykbroker.processes.messages import Announcement

READY_SECONDS_MAX = 30
STOP_SECONDS_MAX = 30
PYKBROKER = (sys.executable, "-m", "pykbroker")


def limited(limit: str) -> tuple[str, ...]:
    """Return the command `pykbroker` with a soft and hard `ulimit`, as in `limited("-n 128")`."""
    return ("sh", "-c", f'ulimit {limit}; exec "$@"', "sh", *PYKBROKER)


def set_options(configs: Mapping[str, str]) -> list[str]:
    """Return the options that set these configs."""
    return [word for name, value in configs.items() for word in ("--set", f"{name}={value}")]


class BrokerProcess:
    """A process of `pykbroker start` with these options, on a free port of `host` that it keeps over restarts.

    `port` is that of the listener PLAINTEXT. The options may name further listeners, all of which are in `announced`.

    The output goes to the files `stdout` and `stderr` in `directory`, so that the process never waits for a reader.
    """

    announced: Announcement

    def __init__(
        self, directory: Path, *options: str, program: Sequence[str] = PYKBROKER, host: str = "127.0.0.1"
    ) -> None:
        self.stdout, self.stderr = directory / "stdout", directory / "stderr"
        self.host, self.port = host, 0
        self._command = [*program, "start", *options]
        self._process: broker_process.BrokerProcess | None = None

    @property
    def address(self) -> str:
        """Return the address for `bootstrap.servers`."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        return self._running().pid

    def start(self) -> None:
        """Start the broker, and wait until clients can connect. RuntimeError: it ends before, with its output."""
        self.begin()
        self.wait_ready()

    def begin(self) -> None:
        """Begin to start the broker. `wait_ready` waits for it."""
        with self.stdout.open("wb") as stdout, self.stderr.open("ab") as stderr:
            self._process = broker_process.BrokerProcess(
                [*self._command, "--listen", self.address], stdout=stdout.fileno(), stderr=stderr.fileno()
            )

    def wait_ready(self) -> None:
        """Wait until clients can connect. RuntimeError: the process ends before, or takes too long; with its output."""
        try:
            message = self._running().message(READY_SECONDS_MAX)
        except TimeoutError:
            message = None
        if not isinstance(message, Announcement):
            self.kill()
            raise RuntimeError(f"{' '.join(self._command)}: no address; its output:\n{self.output()}")
        self.announced = message
        self.port = message.listeners.get("PLAINTEXT", message.address).port

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Stop the broker with SIGTERM or another signal; return the exit code."""
        self._running().send_signal(number)
        return self.ended()

    def ended(self) -> int:
        """Wait until the broker has ended; return the exit code. RuntimeError: it did not, and was killed."""
        process = self._running()
        try:
            return process.ended(STOP_SECONDS_MAX)
        except TimeoutError as late:
            raise RuntimeError(f"{late}; its output:\n{self.output()}") from None
        finally:
            process.close()

    def kill(self) -> None:
        """Kill the process with SIGKILL, if it is running."""
        if self._process is not None:
            self._process.kill()
            self._process.close()

    def restart(self) -> None:
        """Restart the broker after `stop` or `kill`, on the same port and with the same options."""
        self.kill()
        self.start()

    def output(self) -> str:
        """Return the standard output since the last start, and the log of all starts."""
        return self.stdout.read_text() + self.stderr.read_text()

    def _running(self) -> broker_process.BrokerProcess:
        if self._process is None:
            raise RuntimeError("the broker has not been started")
        return self._process
