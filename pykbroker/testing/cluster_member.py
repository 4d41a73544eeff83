"""One broker of a cluster for tests, in a child process."""

from __future__ import annotations

import os
from dataclasses import replace

from pykbroker.core.address import Address
from pykbroker.testing.broker_process import BrokerProcess
from pykbroker.testing.options import HOST, BrokerOptions


class ClusterMember:
    """A broker that may be killed, stopped, paused and started again. It keeps its ports.

    `runs` is false after `kill` and `stop`, and `is_paused` true between `pause` and `resume`.
    """

    def __init__(self, broker: int, directory: str) -> None:
        os.makedirs(directory, exist_ok=True)
        self.broker, self._directory = broker, directory
        self.port, self.controller_port = 0, 0
        self.runs = self.is_paused = False
        self._process: BrokerProcess | None = BrokerProcess(directory)

    @property
    def address(self) -> Address:
        """Return the address for clients."""
        return Address(HOST, self.port)

    def begin(self, options: BrokerOptions) -> None:
        """Begin to start the broker. `started` waits for it."""
        if self._process is None:
            self._process = BrokerProcess(self._directory)
        port = None if options.controller_port is None else self.controller_port
        self._process.begin(replace(options, port=self.port, controller_port=port))

    def started(self) -> None:
        """Wait until the broker serves clients. StartError: it cannot start, and why."""
        assert self._process is not None
        self.port = self._process.started()
        self.controller_port = self._process.controller_port or 0
        self.runs = True

    def kill(self) -> None:
        """End the process as `kill -9` does. After `stop` or `kill`, do nothing."""
        self.runs = self.is_paused = False
        if self._process is not None:
            self._process.kill()
            self._process = None

    def stop(self) -> None:
        """Stop the broker in order: it hands its leaderships over. After `stop` or `kill`, do nothing."""
        self.resume()
        if self._process is not None and self.runs:
            self._process.stop()
        self.runs = False

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

    def close(self) -> None:
        """Stop the broker in order, and end its process."""
        self.resume()
        if self._process is not None:
            self._process.close()
            self._process = None
        self.runs = False
