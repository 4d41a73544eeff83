"""A broker in a child process."""

from __future__ import annotations

import importlib
import json
import os
import selectors
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from pykbroker.core.errors import StartError
from pykbroker.testing.options import BrokerOptions, late_start

PROGRAM = "pykbroker.testing.child"
END_S_MAX = 30


class BrokerProcess:
    """A child process that ends with this one, and its broker. Matches `running.Runner`.

    Each order to the child is a line of JSON on its stdin, and each answer a line of JSON on its stdout. Between
    `stop` and the next `start`, the child continues without a broker.
    """

    controller_port: int | None = None
    """The port of the controller's listener, if this broker is a controller for other nodes."""

    def __init__(self, directory: str) -> None:
        self._directory, self._options = directory, BrokerOptions()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", PROGRAM, directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        importlib.import_module("pykbroker.testing.admin_thread")  # while the child imports the broker

    def start(self, options: BrokerOptions) -> int:
        """Start the broker and return its port. StartError: it cannot start, and why."""
        self.begin(options)
        return self.started()

    def begin(self, options: BrokerOptions) -> None:
        """Begin to start the broker. `started` waits for it."""
        self._options = options
        self._order({"start": asdict(replace(options, start_timeout=None))})  # the limit is kept here

    def started(self) -> int:
        """Wait until the broker has started and return its port. StartError: it cannot start, or not in time, and why.

        A child that has not answered in time is killed.
        """
        if not self._has_answer(self._options.start_timeout):
            self._process.kill()
            self._process.wait()
            waited_for = f"its modules, or {self._options.waited_for(self._directory)}"
            raise late_start(self._options, f"the broker in process {self._process.pid}", waited_for)
        answer = self._answer()
        if "error" in answer:
            raise StartError(answer["error"])
        self.controller_port = answer["controller_port"]
        return int(answer["port"])

    def pause(self) -> None:
        """Stop the child without ending it, and wait until it has stopped, or has ended before."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Continue the paused child."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the child as `kill -9` does, and wait for it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()

    def stop(self) -> None:
        """Stop the broker in order and wait for it. A second call does nothing."""
        if self._process.poll() is None:
            self._order({"stop": True})
            self._answer()

    def close(self) -> None:
        """Stop the broker and end the child, or kill it if it takes too long."""
        with suppress(BrokenPipeError):
            self._write({"end": True})
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        try:
            self._process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise RuntimeError(f"the broker has not stopped within {END_S_MAX} s: its process was killed") from None

    def _order(self, order: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):
            self._write(order)

    def _has_answer(self, seconds: float | None) -> bool:
        """Wait until the child has answered or ended. Return False if it does neither in time."""
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            return bool(selector.select(seconds))

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the broker's process {self._process.pid} has ended; its stderr may say why")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _write(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
