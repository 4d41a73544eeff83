"""A broker in a thread of this process, whose data is removed at its end."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

from pykbroker.cli.start.options import Options
from pykbroker.core.address import Address
from pykbroker.core.errors import StartError
from pykbroker.core.new_topic import NewTopic
from pykbroker.world.temporary import temporary_directory

if TYPE_CHECKING:
    from pykbroker.core.settings import Serving, Settings

START_S_MAX = 30
STOP_S_MAX = 30
LISTENER = "PLAINTEXT"


@contextmanager
def memory_broker(topics: Sequence[NewTopic]) -> Iterator[str]:
    """Run a broker with some topics, and yield its address. StartError: it cannot start, or not in time."""
    with temporary_directory() as directory:
        listen = ((LISTENER, Address("127.0.0.1", 0)),)
        settings = Options(listen=listen, memory=True, topics=tuple(topics)).settings(directory)
        stop = StopSignal()
        started: Future[Serving] = Future()
        thread = threading.Thread(target=_run, args=(settings, started, stop), name="broker", daemon=True)
        thread.start()
        try:
            wait([started], START_S_MAX)
            if not started.done():
                raise StartError(
                    f"the broker in memory has not started within {START_S_MAX} s: it waits for its modules, or for the"
                    f" files in {directory}. End other programs, or try again"
                )
            serving = started.result()
            yield str(Address(serving.host, serving.port))
        finally:
            stop.set()
            thread.join(STOP_S_MAX)


class StopSignal:
    """The event that stops a broker in another thread."""

    def __init__(self) -> None:
        self._broker: tuple[trio.lowlevel.TrioToken, trio.Event] | None = None
        self._is_set = False

    def open(self) -> trio.Event:
        """Return the event, in the thread of the broker."""
        event = trio.Event()
        self._broker = trio.lowlevel.current_trio_token(), event
        if self._is_set:
            event.set()
        return event

    def set(self) -> None:
        """Stop the broker, in any thread, even before its loop runs. A broker that has ended needs nothing."""
        self._is_set = True
        if self._broker is not None:
            token, event = self._broker
            try:
                token.run_sync_soon(event.set)
            except trio.RunFinishedError:
                pass


def _run(settings: Settings, started: Future[Serving], stop: StopSignal) -> None:
    from pykbroker import broker

    async def serve() -> None:
        event = stop.open()
        if not event.is_set():  # otherwise the directory may be removed already, and would be made again
            await broker.serve(settings, started.set_result, stop=event)

    try:
        trio.run(serve)
    except BaseException as error:
        if started.done():
            raise
        started.set_exception(error)
