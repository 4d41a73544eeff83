"""A broker in a thread of this process."""

from __future__ import annotations

import tempfile
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pykbroker.world.shadowing import require_ours

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
    *,
    port: int = 0,
    topics: Mapping[str, int] | Iterable[str] = (),
    configs: Mapping[str, str | int | float | bool] | None = None,
) -> Iterator[RunningBroker]:
    """Run a broker until the block ends.

    `port` 0 selects a free port. `topics` names topics of one partition, or maps names to numbers of partitions.
    `configs` maps Kafka's names of broker configs to values. StartError: a name or a value is invalid.
    """
    require_ours()
    from pykbroker.core.address import Address
    from pykbroker.core.config.config import BrokerConfig
    from pykbroker.core.config.listeners import ListenerSettings
    from pykbroker.core.config.table import ONE_BROKER
    from pykbroker.core.errors import ApiError, StartError
    from pykbroker.core.new_topic import NewTopic
    from pykbroker.core.settings import Settings

    with tempfile.TemporaryDirectory(prefix="pykbroker-", ignore_cleanup_errors=True) as directory:
        try:
            config = BrokerConfig.from_mapping({**ONE_BROKER, "log.dirs": directory, **config_texts(configs or {})})
        except ApiError as error:
            raise StartError(str(error)) from None
        partitions = topics if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
        broker = RunningBroker(
            Settings(
                config,
                (directory,),
                listeners=(ListenerSettings(address=Address(HOST, port)),),
                memory=True,
                topics=tuple(NewTopic(name, count) for name, count in partitions.items()),
            )
        )
        try:
            yield broker
        finally:
            broker.stop()


def config_texts(configs: Mapping[str, str | int | float | bool]) -> dict[str, str]:
    """Return broker configs as texts. StartError: a name is no config; the message suggests the nearest one."""
    from pykbroker.core.config.config import known
    from pykbroker.core.config.names import unknown_config
    from pykbroker.core.errors import StartError

    for name in configs:
        if not known(name):
            raise StartError(unknown_config(name))
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in configs.items()}


class RunningBroker:
    """A broker that serves from its construction to `stop`. Any thread may call its methods."""

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
        """Return HOST:PORT for a client's bootstrap servers."""
        return f"{self.host}:{self.port}"

    def topic(self, name: str | None = None, partitions: int = 1, *, configs: Mapping[str, str] | None = None) -> str:
        """Create a topic, by default with a unique name, and return its name. ApiError: it cannot be created."""
        name = name or f"topic-{uuid.uuid4().hex[:12]}"
        self._ask(lambda admin: admin.create_topic(name, partitions, -1, configs or {}))
        return name

    def stop(self) -> None:
        """Stop the broker in order and wait for it. A second call does nothing."""
        if self._thread.is_alive():
            self._token.run_sync_soon(self._stop.set)
            self._thread.join(STOP_S_MAX)
        if self._thread.is_alive():
            raise RuntimeError(f"the broker has not stopped within {STOP_S_MAX} s")

    def _ask(self, work: Callable[[Admin], Awaitable[None]]) -> None:
        """Run `work` in the broker's thread, since the caller's thread may be running a loop of its own."""
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
    """Connect, run `work`, and pass its outcome to the waiting thread."""
    from pykbroker.client.admin_session import with_admin
    from pykbroker.core.address import Address

    try:
        await with_admin([Address(host, port)], CLIENT_ID, work)
    except BaseException as error:
        done.set_exception(error)
        if not isinstance(error, Exception):
            raise
    else:
        done.set_result(None)
