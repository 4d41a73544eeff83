"""A broker in a thread of this process."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from pykbroker.processes.messages import Announcement
from pykbroker.testing.options import BrokerOptions, late_start
from pykbroker.testing.real_clock import RealClock, in_real_time

if TYPE_CHECKING:
    from pykbroker.core.settings import Serving, Settings

STOP_S_MAX = 30
OPEN_FILES = 10_240
"""The limit of open files that a broker for tests asks for. Child processes inherit it, and some try to close all."""


class BrokerThread:
    """A thread with an event loop of its own, and its broker. Matches `running.Runner`."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._stop: trio.Event
        self._step = ""
        """The step of the start that is in progress, for the error of a late start."""

    def start(self, options: BrokerOptions) -> Announcement:
        """Start the broker and wait until it serves. StartError: it cannot start, or not in time, and why."""
        started: Future[Serving] = Future()
        self._token, self._is_abandoned, self._step = None, False, "its thread"
        arguments = (options, started)
        self._thread = threading.Thread(target=self._run, args=arguments, name="pykbroker", daemon=True)
        self._thread.start()
        try:
            wait([started], options.start_timeout)
            if not started.done():
                raise late_start(options, "the broker", self._step)
            return Announcement.of(started.result())
        except BaseException:
            self._abandon()
            raise

    def stop(self) -> None:
        """Stop the broker in order and wait for it. A second call does nothing."""
        if self._thread is not None and self._thread.is_alive():
            self._order_stop()
            self._thread.join(STOP_S_MAX)
            if self._thread.is_alive():
                raise RuntimeError(f"the broker has not stopped within {STOP_S_MAX} s")

    def close(self) -> None:
        """Stop the broker for good."""
        self.stop()

    def _order_stop(self) -> None:
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._stop.set)

    def _abandon(self) -> None:
        """Have a broker that does not start stop as soon as it can, and wait for that, but not for ever."""
        assert self._thread is not None
        self._is_abandoned = True
        self._order_stop()
        self._thread.join(STOP_S_MAX)
        self._thread = None

    def _run(self, options: BrokerOptions, started: Future[Serving]) -> None:
        try:
            self._step = "its modules"
            trio.run(self._serve, options, options.settings(self._directory), started, clock=RealClock())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    async def _serve(self, options: BrokerOptions, settings: Settings, started: Future[Serving]) -> None:
        from pykbroker import broker
        from pykbroker.world.system import system_world
        from pykbroker.world.system_limits import raise_open_files_limit

        raise_open_files_limit(OPEN_FILES)
        self._step = options.waited_for(self._directory)
        self._stop = trio.Event()
        self._token = trio.lowlevel.current_trio_token()
        if self._is_abandoned:
            return  # the directory may be removed already, and would be made again
        world = in_real_time(system_world(settings.data_dirs, durable=not settings.memory))
        await broker.serve(settings, started.set_result, world=world, stop=self._stop)
