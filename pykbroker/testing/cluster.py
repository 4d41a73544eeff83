"""A running cluster of several brokers for tests, each in a child process."""

from __future__ import annotations

import os
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, TypeVar

from pykbroker.testing import real_time  # noqa: F401 - imported before a test freezes time
from pykbroker.testing.cluster_options import CONTROLLER, ClusterOptions, checked_cluster_options
from pykbroker.testing.log_in_settings import GivesLogInSettings, LogInSettings
from pykbroker.testing.options import START_TIMEOUT_S, ConfigValue, values_as_texts
from pykbroker.world.shadowing import require_ours
from pykbroker.world.temporary import temporary_directory

if TYPE_CHECKING:
    from pykbroker.client.admin.admin import Admin
    from pykbroker.testing.child_broker import ChildBroker
    from wire.messages.metadata import MetadataResponsePartition

T = TypeVar("T")

POLL_S = 0.02


@contextmanager
def running_cluster(
    brokers: int = 3,
    *,
    replicas: int | None = None,
    topics: Mapping[str, int | None] | Iterable[str] = (),
    configs: Mapping[str, ConfigValue] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    start_timeout: float = START_TIMEOUT_S,
    tls: bool = False,
    users: Mapping[str, str] | None = None,
    authorize: bool = False,
) -> Iterator[RunningCluster]:
    """Run a cluster until the block ends, each broker in a child process. The ids of the brokers begin with 1.

    `replicas` is the replication factor of all topics, by default 3, or `brokers` if there are fewer. From 3 on,
    min.insync.replicas is 2. All other options are those of `running_broker`; each broker has a directory of its own in
    `data_dir`. StartError: an option is invalid, or a broker cannot start, or not in time.
    """
    require_ours()
    options = checked_cluster_options(
        brokers,
        replicas,
        topics,
        configs,
        data_dir,
        start_timeout,
        os.environ,
        tls=tls,
        users=users,
        authorize=authorize,
    )
    keeps = options.shared.data_dir
    with nullcontext(keeps) if keeps is not None else temporary_directory() as directory:
        cluster = RunningCluster(options, directory)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.close()


class RunningCluster(GivesLogInSettings):
    """A cluster that serves from `start` to `close`. Any thread may call its methods. Broker 1 is the controller, too.

    A forked process may call the methods that create, delete and describe topics. Only the process that started the
    brokers can stop or start them.
    """

    controller = CONTROLLER

    def __init__(self, options: ClusterOptions, directory: str) -> None:
        from pykbroker.testing.child_broker import ChildBroker

        self._authority, self._owner = os.path.join(directory, str(CONTROLLER)), os.getpid()
        self._options = options.signed_by(self._authority)
        self._members: dict[int, ChildBroker] = {}
        try:
            for broker in range(1, options.brokers + 1):
                place = os.path.join(directory, str(broker))
                os.makedirs(place, exist_ok=True)
                self._members[broker] = ChildBroker(place)
        except BaseException:
            self.close()
            raise

    # ---- addresses

    @property
    def brokers(self) -> tuple[int, ...]:
        """Return the ids of all brokers, also of those that do not run."""
        return tuple(self._members)

    @property
    def bootstrap(self) -> str:
        """Return the addresses of all brokers for a client's bootstrap servers."""
        return ",".join(str(member.address) for member in self._members.values())

    def address(self, broker: int) -> str:
        """Return HOST:PORT of one broker, which it keeps over restarts."""
        return str(self._member(broker).address)

    def _log_in_settings(self) -> LogInSettings:
        return self._options.shared.log_in_settings(self.bootstrap, self._authority)

    # ---- topics

    def topic(
        self,
        name: str | None = None,
        partitions: int = 1,
        *,
        replicas: int | None = None,
        configs: Mapping[str, ConfigValue] | None = None,
    ) -> str:
        """Create a topic, by default with a unique name, and return its name. ApiError: it cannot be created."""
        name, texts = name or f"topic-{uuid.uuid4().hex[:12]}", values_as_texts(configs or {})
        self._ask(lambda admin: admin.create_topic(name, partitions, replicas, texts))
        return name

    def delete(self, topics: Sequence[str]) -> None:
        """Delete topics and their records. ApiError: one does not exist."""
        self._ask(lambda admin: admin.delete_topics(topics))

    def clear(self) -> None:
        """Delete all topics, groups and transactions, and create the topics of the options again.

        Clients stay connected. Brokers that do not run stay so: call `heal` first.
        """

        async def work(admin: Admin) -> None:
            await admin.delete_topics([topic.name for topic in await admin.topics()])
            await self._create(admin)

        self._ask(work)

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the id of the broker that leads a partition, once that is one that runs. ApiError: no such topic."""
        running = {broker for broker, member in self._members.items() if member.runs and not member.is_paused}

        def led(parts: Sequence[MetadataResponsePartition]) -> bool:
            return parts[0].leader_id in running

        return self._until(led, f"{topic}-{partition} has no leader that runs", topic, partition)[0].leader_id

    def isr(self, topic: str, partition: int = 0) -> list[int]:
        """Return the ids of the brokers whose replicas are in sync, sorted. ApiError: no such topic."""
        return sorted(self._until(lambda _: True, "", topic, partition)[0].isr_nodes)

    def wait_in_sync(self) -> None:
        """Wait until the ISR of each partition has all its replicas. TimeoutError: it takes more than 30 s."""

        def full(parts: Sequence[MetadataResponsePartition]) -> bool:
            return all(set(part.isr_nodes) == set(part.replica_nodes) and part.leader_id >= 0 for part in parts)

        self._until(full, "a partition has replicas that are not in sync")

    # ---- brokers

    def kill(self, broker: int) -> None:
        """End a broker as `kill -9` does. The other brokers serve on; `restart` starts it again."""
        self._owned(broker).kill()

    def stop(self, broker: int) -> None:
        """Stop a broker in order: it first hands its leaderships over. `restart` starts it again.

        While the controller does not run, the broker is killed, since an orderly stop would wait for the controller.
        """
        self._stop(self._owned(broker))

    def pause(self, broker: int) -> None:
        """Stop the process of a broker without ending it, as a long pause or a cut of its network does.

        Its connections stay open, and nobody answers. `resume` lets it run again.
        """
        self._owned(broker).pause()

    def resume(self, broker: int) -> None:
        """Continue a paused broker."""
        self._owned(broker).resume()

    def restart(self, *brokers: int) -> None:
        """Stop these brokers, by default all, and start them on the same ports with their data.

        After `stop` or `kill`, only start them. Wait until they serve. StartError: a broker cannot start.
        """
        members = {broker: self._owned(broker) for broker in sorted(brokers or self._members)}
        for member in reversed(members.values()):  # the controller last, since the others ask it before they stop
            self._stop(member)
        self._start(members)

    def heal(self) -> None:
        """Resume all paused brokers, start all that do not run, and wait until all replicas are in sync."""
        for broker in self._members:
            self._owned(broker).resume()
        members = self._members.items()
        self._start({broker: member for broker, member in members if not member.runs or member.has_died})
        self.wait_in_sync()

    # ---- the whole cluster

    def start(self) -> None:
        """Start all brokers, and create the topics of the options. StartError: a broker or a topic fails."""
        from pykbroker.core.errors import ApiError, StartError

        self._start(self._members)
        if self._options.shared.topics:
            try:
                self._ask(self._create, self._options.shared.start_timeout)
            except (TimeoutError, ConnectionError, ApiError) as error:
                raise StartError(f"the topics of the options are not created: {error}") from None

    def close(self) -> None:
        """Stop all brokers for good. In a forked process, this does nothing.

        Without a data directory, they are killed: nothing that an orderly stop would save is kept. A broker that has
        not started is killed, too, since it takes no orders. All brokers end, even if one cannot be stopped in order.
        """
        if os.getpid() == self._owner:
            with ExitStack() as last_first:
                for member in self._members.values():
                    is_kept = self._options.shared.data_dir is not None and member.runs
                    last_first.callback(member.close if is_kept else member.kill)

    # ---- internals

    def _stop(self, member: ChildBroker) -> None:
        controller = self._members[CONTROLLER]
        if member is controller or (controller.runs and not controller.is_paused):
            member.stop()
        else:
            member.kill()

    def _start(self, members: Mapping[int, ChildBroker]) -> None:
        """Start brokers: the controller first, and all others at once. If one fails, kill those that do not serve."""
        controller = self._members[CONTROLLER]
        others = {broker: member for broker, member in members.items() if broker != CONTROLLER}
        try:
            if CONTROLLER in members:
                controller.start(self._options.of(CONTROLLER, None))
            for broker, member in others.items():
                member.begin(self._options.of(broker, str(controller.controller)))
            for member in others.values():
                member.started()
        except BaseException:
            for member in members.values():
                if not member.runs:
                    member.kill()  # its answer would be taken for that to a later order
            raise

    async def _create(self, admin: Admin) -> None:
        for name, partitions in self._options.shared.topics.items():
            await admin.create_topic(name, partitions)

    def _member(self, broker: int) -> ChildBroker:
        if broker not in self._members:
            raise ValueError(f"there is no broker {broker}: the cluster has {', '.join(map(str, self._members))}")
        return self._members[broker]

    def _owned(self, broker: int) -> ChildBroker:
        if os.getpid() != self._owner:
            raise RuntimeError(f"only process {self._owner}, which started the brokers, can stop or start them")
        return self._member(broker)

    def _ask(self, work: Callable[[Admin], Awaitable[T]], seconds: float | None = None) -> T:
        """Return what `work` returns for an admin client of the first broker that runs. ConnectionError: none does."""
        from pykbroker.testing.admin_thread import ANSWER_S_MAX, ask

        members = self._members.values()
        running = [member.own for member in members if member.runs and not member.is_paused]
        return ask(running or [member.own for member in members], work, seconds or ANSWER_S_MAX)

    def _until(
        self,
        holds: Callable[[Sequence[MetadataResponsePartition]], bool],
        otherwise: str,
        topic: str | None = None,
        partition: int | None = None,
    ) -> Sequence[MetadataResponsePartition]:
        """Return the partitions of a topic or of all, or one of them, once they have a property.

        TimeoutError: they do not get it within 30 s.
        """
        import trio

        from pykbroker.testing.admin_thread import ANSWER_S_MAX

        async def work(admin: Admin) -> Sequence[MetadataResponsePartition]:
            with trio.move_on_after(ANSWER_S_MAX - 1):
                while True:
                    topics = await admin.topics(None if topic is None else [topic])
                    found = [part for each in topics for part in each.partitions]
                    if partition is not None:
                        found = [part for part in found if part.partition_index == partition]
                        if not found:
                            raise ValueError(f"{topic} has no partition {partition}")
                    if holds(found):
                        return found
                    await trio.sleep(POLL_S)
            raise TimeoutError(f"{otherwise}, {ANSWER_S_MAX - 1} s long")

        return self._ask(work)
