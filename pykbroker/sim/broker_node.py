"""A broker on a simulated machine: its start, its stop, and its log lines."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from pykbroker.broker import serve
from pykbroker.broker.parts import Parts
from pykbroker.core.errors import StartError, StopError
from pykbroker.core.settings import Serving, Settings
from pykbroker.sim.machine import SimMachine
from pykbroker.sim.simulation import Simulation
from pykbroker.world.world import World

START_S_MAX = STOP_S_MAX = 60.0


class BrokerNode:
    """A broker that is started and stopped on a simulated machine.

    `exits` has the errors that ended the broker because of simulated faults. `parts` has the parts of the broker that
    serves, for the judges of a simulation, and may belong to a broker that has ended. `crashed` is true if the process
    before the current one was killed while nobody had stopped it.
    """

    def __init__(self, machine: SimMachine, settings: Settings, unexpected: list[str]) -> None:
        self.machine, self._settings, self._unexpected = machine, settings, unexpected
        self._stop = trio.Event()
        self._up = trio.Event()
        self._ended = True
        self.crashed = False
        self.exits: list[str] = []
        self.parts: Parts | None = None

    @property
    def serving(self) -> bool:
        """Whether the broker runs and accepts requests."""
        return self.machine.is_up and self._up.is_set()

    def start(self) -> None:
        """Start a broker on the machine, unless one runs."""
        if not self.machine.is_up:
            self.crashed = not self._ended and not self._stop.is_set()
            self._ended = False
            self._stop, self._up, self.parts = trio.Event(), trio.Event(), None
            self.machine.boot(self._live)

    async def wait_serving(self) -> None:
        """Wait until the broker accepts requests. Restart it if it stopped because of a disk fault."""
        with trio.move_on_after(START_S_MAX):
            while not self.serving:
                self.start()
                with trio.move_on_after(1):
                    await self._up.wait()
            return
        self._unexpected.append(f"{self.machine.name} does not start within {START_S_MAX:.0f} s: {self.exits[-1:]}")

    async def stop(self) -> None:
        """Shut down the broker cleanly. It may be killed during the shutdown."""
        self._stop.set()
        with trio.move_on_after(STOP_S_MAX):
            await self.machine.process.gone.wait()
            return
        self._unexpected.append(f"{self.machine.name} does not stop within {STOP_S_MAX:.0f} s")
        self.machine.kill()

    async def _live(self, world: World) -> None:
        up, stop = self._up, self._stop

        def ready(serving: Serving) -> None:
            self.parts = serving.observer.parts
            up.set()

        try:
            await serve(self._settings, ready, world=world, stop=stop)
        except Exception as error:  # noqa: BLE001 - sorted here: the machine's fault, or a finding
            self._judge(error)
        else:
            if not stop.is_set():
                self._unexpected.append(f"{self.machine.name} ended though nobody stopped it")
        self._ended = True
        self.machine.kill()

    def _judge(self, error: Exception) -> None:
        for cause in leaves(error):
            if isinstance(cause, StartError | StopError | OSError):
                self.exits.append(f"{type(cause).__name__}: {cause}")
            else:
                self._unexpected.append(f"{self.machine.name} died of {cause!r}")
                logging.getLogger(__name__).error("the broker died", exc_info=cause)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions in nested exception groups."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


class LogWatch(logging.Handler):
    """A log handler that traces each line, reports a traceback as a finding, and keeps the errors."""

    def __init__(self, simulation: Simulation, unexpected: list[str]) -> None:
        super().__init__(logging.INFO)
        self._simulation, self._unexpected = simulation, unexpected
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        self._simulation.trace("log", record.levelname, message)
        if self._simulation.over:
            return
        if record.exc_info and record.exc_info[1] is not None:
            self._unexpected.append(f"traceback: {message}: {record.exc_info[1]!r}")
        elif record.levelno >= logging.ERROR:
            self.errors.append(message)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Receive the log records of all simulated brokers while the block runs."""
        logger = logging.getLogger("pykbroker")
        level = logger.level
        logger.addHandler(self)
        logger.setLevel(min(level or logging.INFO, logging.INFO))
        try:
            yield
        finally:
            logger.removeHandler(self)
            logger.setLevel(level)
