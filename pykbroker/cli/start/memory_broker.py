"""A broker in a thread of this process, whose data is removed at its end."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

from pykbroker.cli.start.options import Options
from pykbroker.core.address import Address
from pykbroker.core.new_topic import NewTopic
from pykbroker.world.temporary import temporary_directory

if TYPE_CHECKING:
    from pykbroker.core.settings import Serving, Settings

START_S_MAX = 30
STOP_S_MAX = 30
LISTENER = "PLAINTEXT"


@contextmanager
def memory_broker(topics: Sequence[NewTopic]) -> Iterator[str]:
    """Run a broker with some topics, and yield its address. StartError: it cannot start."""
    with temporary_directory() as directory:
        listen = ((LISTENER, Address("127.0.0.1", 0)),)
        settings = Options(listen=listen, memory=True, topics=tuple(topics)).settings(directory)
        stop = StopSignal()
        started: Future[Serving] = Future()
        thread = threading.Thread(target=_run, args=(settings, started, stop), name="broker", daemon=True)
        thread.start()
        try:
            serving = started.result(START_S_MAX)
            yield str(Address(serving.host, serving.port))
        finally:
            stop.set()
            thread.join(STOP_S_MAX)


class StopSignal:
    """The event that stops a broker in another thread."""

    def __init__(self) -> None:
        self._broker: tuple[trio.lowlevel.TrioToken, trio.Event] | None = None

    def open(self) -> trio.Event:
        """Return the event, in the thread of the broker."""
        event = trio.Event()
        self._broker = trio.lowlevel.current_trio_token(), event
        return event

    def set(self) -> None:
        """Stop the broker, in any thread. A broker that has ended needs nothing."""
        if self._broker is not None:
            token, event = self._broker
            try:
                token.run_sync_soon(event.set)
            except trio.RunFinishedError:
                pass


def _run(settings: Settings, started: Future[Serving], stop: StopSignal) -> None:
    from pykbroker import broker

    async def serve() -> None:
        await broker.serve(settings, started.set_result, stop=stop.open())

    try:
        trio.run(serve)
    except BaseException as error:
        if started.done():
            raise
        started.set_exception(error)
