"""A running broker for tests, in a thread or in a child process."""

from __future__ import annotations

import os
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol

from pykbroker.testing import real_time  # noqa: F401 - imported before a test freezes time
from pykbroker.testing.log_in_settings import GivesLogInSettings, LogInSettings
from pykbroker.testing.options import (
    HOST,
    OWN_LISTENER,
    START_TIMEOUT_S,
    BrokerOptions,
    ConfigValue,
    checked_options,
    values_as_texts,
)
from pykbroker.world.shadowing import require_ours
from pykbroker.world.temporary import temporary_directory

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin
    from pykbroker.processes.messages import Announcement


INSTEAD_OF_OPTIONS = {
    "--tls auto": "tls=True",
    f"--listen {HOST}:PORT": "port=",
    "--data-dir or in log.dirs": "data_dir=",
}
"""Option of the command `pykbroker start`, in error messages -> the same option of `running_broker`."""


@contextmanager
def running_broker(
    *,
    port: int = 0,
    topics: Mapping[str, int | None] | Iterable[str] = (),
    configs: Mapping[str, ConfigValue] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    process: bool = False,
    start_timeout: float = START_TIMEOUT_S,
    tls: bool = False,
    users: Mapping[str, str] | None = None,
    authorize: bool = False,
) -> Iterator[RunningBroker]:
    """Run a broker until the block ends.

    `port` 0 selects a free port. `topics` names topics of num.partitions partitions, or maps names to numbers of
    partitions. `configs` maps Kafka's names of broker configs to values; they take precedence over PYKBROKER_*
    variables. `data_dir` is a directory that keeps the data, by default a temporary one. `process` runs the broker in
    a child process instead of a thread. `start_timeout` limits each start, in seconds. With `tls`, clients use TLS.
    `users` maps the names of users to passwords: clients must log in as one of them. With `authorize`, users may do
    only what ACLs allow, and the first one may do everything. StartError: an option is invalid, or the broker cannot
    start, or not in time.
    """
    require_ours()
    options = checked_options(
        port, topics, configs, data_dir, process, start_timeout, os.environ, tls=tls, users=users, authorize=authorize
    )
    with nullcontext(options.data_dir) if options.data_dir else temporary_directory() as directory:
        broker = RunningBroker(options, directory)
        try:
            yield broker
        finally:
            broker.close()


class Runner(Protocol):
    """A thread or a process in which a broker can be started and stopped."""

    def start(self, options: BrokerOptions, /) -> Announcement:
        """Start the broker and wait until it serves. StartError: it cannot start, and why."""

    def stop(self) -> None:
        """Stop the broker in order and wait for it. A second call does nothing."""

    def close(self) -> None:
        """Stop the broker for good."""


class RunningBroker(GivesLogInSettings):
    """A broker that serves from its construction to `close`. Any thread may call its methods.

    A forked process may call `topic`, `delete` and `clear`. Only the process that started the broker can stop or
    restart it. ConnectionError: the broker has stopped.
    """

    def __init__(self, options: BrokerOptions, directory: str) -> None:
        self._options, self._owner, self._directory = options, os.getpid(), directory
        self._runner = runner(options, directory)
        try:
            self._announced = start(self._runner, options)
            self.host, self.port = HOST, self._announced.address.port
        except BaseException:
            self._runner.close()
            raise

    @property
    def bootstrap(self) -> str:
        """Return HOST:PORT for a client's bootstrap servers."""
        return f"{self.host}:{self.port}"

    def _log_in_settings(self) -> LogInSettings:
        return self._options.log_in_settings(self.bootstrap, self._directory)

    def topic(
        self, name: str | None = None, partitions: int = 1, *, configs: Mapping[str, ConfigValue] | None = None
    ) -> str:
        """Create a topic, by default with a unique name, and return its name. ApiError: it cannot be created."""
        name, texts = name or f"topic-{uuid.uuid4().hex[:12]}", values_as_texts(configs or {})
        self._ask(lambda admin: admin.create_topic(name, partitions, configs=texts))
        return name

    def delete(self, topics: Sequence[str]) -> None:
        """Delete topics and their records. ApiError: one does not exist."""
        self._ask(lambda admin: admin.delete_topics(topics))

    def clear(self) -> None:
        """Delete all topics, groups and transactions, and create the topics of the broker's options again.

        Clients stay connected. ApiError: `delete.topic.enable` is false.
        """

        async def work(admin: Admin) -> None:
            await admin.delete_topics([topic.name for topic in await admin.topics()])
            for name, partitions in self._options.topics.items():
                await admin.create_topic(name, partitions)

        self._ask(work)

    def restart(self) -> None:
        """Stop the broker, and start it on the same port with its data. After `stop`, only start it. StartError."""
        if os.getpid() != self._owner:
            raise RuntimeError(f"only process {self._owner}, which started the broker, can restart it")
        self._runner.stop()
        self._announced = start(self._runner, self._options.at(self.port))

    def stop(self) -> None:
        """Stop the broker in order and wait for it; `restart` starts it again. A second call does nothing."""
        if os.getpid() != self._owner:
            raise RuntimeError(f"only process {self._owner}, which started the broker, can stop it")
        self._runner.stop()

    def close(self) -> None:
        """Stop the broker for good. In a forked process, this does nothing."""
        if os.getpid() == self._owner:
            self._runner.close()

    def _ask(self, work: Callable[[Admin], Awaitable[None]]) -> None:
        """Run `work` with an admin client. ConnectionError: the broker has stopped."""
        from pykbroker.testing.admin_thread import ask

        ask([self._announced.listeners.get(OWN_LISTENER, self._announced.address)], work)


def runner(options: BrokerOptions, directory: str) -> Runner:
    """Return a runner that has not started its broker yet."""
    from pykbroker.testing.broker_thread import BrokerThread
    from pykbroker.testing.child_broker import ChildBroker

    return ChildBroker(directory) if options.process else BrokerThread(directory)


def start(broker: Runner, options: BrokerOptions) -> Announcement:
    """Start a broker and wait until it serves. StartError: its text names options of `running_broker`."""
    from pykbroker.core.errors import StartError

    try:
        return broker.start(options)
    except StartError as error:
        reason = str(error)
        for option, instead in INSTEAD_OF_OPTIONS.items():
            reason = reason.replace(option, instead)
        raise StartError(reason) from None
