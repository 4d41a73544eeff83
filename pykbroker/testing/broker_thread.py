"""A broker in a thread of this process."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

import trio

from pykbroker.testing.options import BrokerOptions
from pykbroker.testing.real_clock import RealClock, in_real_time

if TYPE_CHECKING:
    from pykbroker.core.settings import Serving, Settings

START_S_MAX = 30
STOP_S_MAX = 30


class BrokerThread:
    """A thread with an event loop of its own, and its broker. Matches `running.Runner`."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._thread: threading.Thread | None = None
        self.controller_port: int | None = None
        """The port of the controller's listener, if this broker is a controller for other nodes."""
        self._token: trio.lowlevel.TrioToken
        self._stop: trio.Event

    def start(self, options: BrokerOptions) -> int:
        """Start the broker and return its port. StartError: it cannot start, and why."""
        started: Future[Serving] = Future()
        arguments = (options.settings(self._directory), started)
        self._thread = threading.Thread(target=self._run, args=arguments, name="pykbroker", daemon=True)
        self._thread.start()
        try:
            serving = started.result(START_S_MAX)
        except BaseException:
            self._thread.join(STOP_S_MAX)
            raise
        self.controller_port = next((address.port for address in serving.controller_listeners.values()), None)
        return serving.port

    def stop(self) -> None:
        """Stop the broker in order and wait for it. A second call does nothing."""
        if self._thread is not None and self._thread.is_alive():
            self._token.run_sync_soon(self._stop.set)
            self._thread.join(STOP_S_MAX)
            if self._thread.is_alive():
                raise RuntimeError(f"the broker has not stopped within {STOP_S_MAX} s")

    def close(self) -> None:
        """Stop the broker for good."""
        self.stop()

    def _run(self, settings: Settings, started: Future[Serving]) -> None:
        try:
            trio.run(self._serve, settings, started, clock=RealClock())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    async def _serve(self, settings: Settings, started: Future[Serving]) -> None:
        from pykbroker import broker
        from pykbroker.world.system import system_world

        self._token, self._stop = trio.lowlevel.current_trio_token(), trio.Event()
        world = in_real_time(system_world(settings.data_dirs, durable=not settings.memory))
        await broker.serve(settings, started.set_result, world=world, stop=self._stop)
