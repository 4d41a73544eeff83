"""A broker in a child process."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from typing import Any

from pykbroker.core.address import Address
from pykbroker.core.errors import StartError
from pykbroker.processes.broker_process import BrokerProcess
from pykbroker.processes.messages import Announcement, Message, StartRefused
from pykbroker.testing.options import HOST, OWN_LISTENER, BrokerOptions, late_start

PROGRAM = "pykbroker.testing.child"
END_S_MAX = 30
STOP_S_MAX = 40
"""The time for a stop. It is longer than the child's own limit, after which the child ends with an error."""


class ChildBroker:
    """A broker in a child process that ends with this one. Matches `running.Runner`.

    It may be killed, stopped, paused and started again, and keeps its ports. Between `stop` and the next start, the
    process continues without a broker. `runs` is false after `kill` and `stop`, and `is_paused` true between `pause`
    and `resume`. `controller` is the address of the controller's listener, if this broker has one, and `own` that
    of the listener for requests of the fixture.
    """

    def __init__(self, directory: str) -> None:
        self._directory, self._options = directory, BrokerOptions()
        self.address = self.own = Address(HOST, 0)
        self.controller: Address | None = None
        self.runs = self.is_paused = False
        self._process: BrokerProcess | None = child(directory)
        importlib.import_module("pykbroker.testing.admin_thread")  # while the child imports the broker

    def start(self, options: BrokerOptions) -> Announcement:
        """Start the broker and wait until it serves. StartError: it cannot start, or not in time, and why."""
        self.begin(options)
        return self.started()

    def begin(self, options: BrokerOptions) -> None:
        """Begin to start the broker, in another process if this one has ended. `started` waits for it."""
        if self._process is not None and not self._process.runs:
            self.kill()
        if self._process is None:
            self._process = child(self._directory)
        kept = 0 if self.controller is None else self.controller.port
        controller_port = None if options.controller_port is None else kept
        self._options = replace(options, port=self.address.port or options.port, controller_port=controller_port)
        self._order({"start": asdict(replace(self._options, start_timeout=None))})  # the limit is kept here

    def started(self) -> Announcement:
        """Wait until the broker serves. StartError: it cannot start, or not in time, and why.

        A child that has not answered in time is killed. The next start begins another one.
        """
        assert self._process is not None
        try:
            answer = self._answer(self._options.start_timeout)
        except TimeoutError:
            broker = f"the broker in process {self._process.pid}"
            self.kill()
            waited_for = f"its modules, or {self._options.waited_for(self._directory)}"
            raise late_start(self._options, broker, waited_for) from None
        if isinstance(answer, StartRefused):
            raise StartError(answer.reason)
        assert isinstance(answer, Announcement)
        self.address, self.controller, self.runs = answer.address, answer.controller, True
        self.own = answer.listeners.get(OWN_LISTENER, answer.address)
        return answer

    @property
    def has_died(self) -> bool:
        """Whether the process has ended although nobody stopped it. Only its parent process knows."""
        return self.runs and self._process is not None and not self._process.runs

    def pause(self) -> None:
        """Stop the process without ending it, so that its connections stay open and nothing is answered."""
        if self._process is not None and self.runs:
            self._process.pause()
            self.is_paused = True

    def resume(self) -> None:
        """Continue a paused process."""
        if self._process is not None and self.is_paused:
            self._process.resume()
        self.is_paused = False

    def kill(self) -> None:
        """End the process as `kill -9` does. After `kill`, do nothing."""
        self.runs = self.is_paused = False
        if self._process is not None:
            self._process.kill()
            self._process.close()
            self._process = None

    def stop(self) -> None:
        """Stop the broker in order and wait for it. After `stop` or `kill`, do nothing.

        RuntimeError: it has not stopped in time, and its process was killed.
        """
        self.resume()
        if self._process is not None and self.runs and self._process.runs:
            self._order({"stop": True})
            try:
                self._answer(STOP_S_MAX)
            except TimeoutError:
                self.kill()
                raise not_stopped(STOP_S_MAX) from None
        self.runs = False

    def close(self) -> None:
        """Stop the broker in order and end the process, or kill it if it takes too long."""
        self.resume()
        self.runs = False
        if self._process is not None:
            self._order({"end": True})
            self._process.close()
            try:
                self._process.ended(END_S_MAX)
            except TimeoutError:
                raise not_stopped(END_S_MAX) from None
            finally:
                self._process = None

    def _order(self, order: dict[str, Any]) -> None:
        assert self._process is not None
        self._process.order(json.dumps(order).encode())

    def _answer(self, seconds: float | None = None) -> Message:
        assert self._process is not None
        answer, pid = self._process.message(seconds), self._process.pid
        if answer is None:
            self.kill()  # its end is near: a process closes its pipes first
            raise RuntimeError(f"the broker's process {pid} has ended; its stderr may say why")
        return answer


def not_stopped(seconds: float) -> RuntimeError:
    """Return the error of a stop that has taken longer than this time."""
    return RuntimeError(f"the broker has not stopped within {seconds:g} s: its process was killed")


def child(directory: str) -> BrokerProcess:
    """Start a process for a broker whose data is in this directory."""
    return BrokerProcess(
        [sys.executable, "-P", "-m", PROGRAM, directory],
        stdin=subprocess.PIPE,
        environ={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
