"""A broker in a thread of this process."""

from __future__ import annotations

import tempfile
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import trio

    from pykbroker.client.admin import Admin
    from pykbroker.core.settings import Serving, Settings

HOST = "127.0.0.1"
START_S_MAX = 30
STOP_S_MAX = 30
ANSWER_S_MAX = 30
CLIENT_ID = "pykbroker-testing"


@contextmanager
def running_broker(
    *, port: int = 0, topics: Mapping[str, int] | None = None, configs: Mapping[str, str] | None = None
) -> Iterator[RunningBroker]:
    """A broker that serves until the block ends.

    `port` 0 is a free one, `topics` are partitions by name, `configs` broker configs by their Kafka names.
    """
    from pykbroker.core.config.config import BrokerConfig
    from pykbroker.core.config.table import ONE_BROKER
    from pykbroker.core.settings import Settings

    with tempfile.TemporaryDirectory(prefix="pykbroker-", ignore_cleanup_errors=True) as directory:
        config = BrokerConfig.from_mapping({**ONE_BROKER, "log.dirs": directory, **(configs or {})})
        broker = RunningBroker(
            Settings(
                config,
                (directory,),
                listen_host=HOST,
                listen_port=port,
                memory=True,
                topics=tuple((topics or {}).items()),
            )
        )
        try:
            yield broker
        finally:
            broker.stop()


class RunningBroker:
    """Serves from its construction to `stop`. Any thread may call its methods, also one that runs a loop of its own."""

    def __init__(self, settings: Settings) -> None:
        self._started: Future[Serving] = Future()
        self._thread = threading.Thread(target=self._run, args=(settings,), name="pykbroker", daemon=True)
        self._token: trio.lowlevel.TrioToken
        self._nursery: trio.Nursery
        self._stop: trio.Event
        self._thread.start()
        try:
            serving = self._started.result(START_S_MAX)
        except BaseException:
            self._thread.join(STOP_S_MAX)
            raise
        self.host, self.port = serving.host, serving.port

    @property
    def bootstrap(self) -> str:
        """HOST:PORT, what clients call their bootstrap servers."""
        return f"{self.host}:{self.port}"

    def topic(self, name: str | None = None, partitions: int = 1, *, configs: Mapping[str, str] | None = None) -> str:
        """Create a topic and return its name, a fresh one where none is given. ApiError says why it cannot be."""
        name = name or f"topic-{uuid.uuid4().hex[:12]}"
        self._ask(lambda admin: admin.create_topic(name, partitions, -1, configs or {}))
        return name

    def stop(self) -> None:
        """Stop in order and wait for it; a second time nothing happens."""
        if self._thread.is_alive():
            self._token.run_sync_soon(self._stop.set)
            self._thread.join(STOP_S_MAX)
        if self._thread.is_alive():
            raise RuntimeError(f"the broker has not stopped within {STOP_S_MAX} s")

    def _ask(self, work: Callable[[Admin], Awaitable[None]]) -> None:
        """Have the broker's thread ask the broker: the caller's thread may be running a loop itself."""
        done: Future[None] = Future()
        self._token.run_sync_soon(self._nursery.start_soon, answer, done, self.host, self.port, work)
        done.result(ANSWER_S_MAX)

    def _run(self, settings: Settings) -> None:
        import trio

        trio.run(self._serve, settings)

    async def _serve(self, settings: Settings) -> None:
        import trio

        from pykbroker import broker

        self._token, self._stop = trio.lowlevel.current_trio_token(), trio.Event()
        async with trio.open_nursery() as self._nursery:
            try:
                await broker.serve(settings, self._started.set_result, stop=self._stop)
            except BaseException as error:
                if self._started.done():
                    raise
                self._started.set_exception(error)
            self._nursery.cancel_scope.cancel()


async def answer(done: Future[None], host: str, port: int, work: Callable[[Admin], Awaitable[None]]) -> None:
    """Connect, work, and tell the thread that waits."""
    import trio

    from pykbroker.client.admin import Admin
    from pykbroker.client.connection import connected

    try:
        async with connected(await trio.open_tcp_stream(host, port), CLIENT_ID) as connection:
            await work(Admin(connection))
    except BaseException as error:
        done.set_exception(error)
        if not isinstance(error, Exception):
            raise
    else:
        done.set_result(None)
