"""The run of `pykbroker cluster`: it starts a process for each broker, and starts a broker that dies again."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing, nullcontext

import click
import trio
from msgspec.structs import replace

from pykbroker.cli.cluster import member
from pykbroker.cli.cluster.plan import CONTROLLER, ClusterPlan, of_broker
from pykbroker.cli.cluster.security import certificate_name
from pykbroker.cli.cluster.users_file import UsersFile
from pykbroker.cli.signals import STOPPING
from pykbroker.cli.start.data_dirs import default_data_dir, make_data_dir
from pykbroker.cli.start.own_certificates import locked, trust
from pykbroker.cli.start.process import write_log
from pykbroker.cli.start.run import EXIT_CODE_IMPATIENT
from pykbroker.cli.start.users import log_in
from pykbroker.core.address import Address
from pykbroker.core.config.environment import without_options
from pykbroker.core.errors import StartError
from pykbroker.core.new_user import NewUser
from pykbroker.core.security.own_certificates import AUTHORITY
from pykbroker.core.version import VERSION
from pykbroker.processes.broker_process import BrokerProcess
from pykbroker.processes.messages import Announcement
from pykbroker.world.temporary import temporary_directory

RESTART_S = 0.5
"""The pause before a broker that died is started again."""
STOP_S_MAX = 40
"""The time that a broker may take to stop before it is killed."""
LINE_BYTES_MAX = 1 << 20
WITHOUT_EFFECT = tuple(
    f"PYKBROKER_{option}" for option in ("CLUSTER_ID", "CONFIG", "CONTAINER", "DATA_DIR", "LISTEN", "LOG_FORMAT")
)
"""The variables for options of `pykbroker start` that this command has not."""

logger = logging.getLogger(__name__)


class Lifelines:
    """Two pipes by which the brokers notice the end of this process, even by SIGKILL. Nothing is written to them.

    Brokers stop once the first pipe ends, which only this process holds open. The controller stops once the second one
    ends, which the other brokers hold open, too. It stops last, therefore, since a controlled shutdown needs it.
    """

    def __init__(self) -> None:
        (self._of_brokers, _), (self._of_controller, self._held) = os.pipe(), os.pipe()

    def watched(self, node_id: int) -> int:
        """Return the descriptor that the process of a broker reads."""
        return self._of_controller if node_id == CONTROLLER else self._of_brokers

    def held(self, node_id: int) -> tuple[int, ...]:
        """Return the descriptors that the process of a broker holds open."""
        return () if node_id == CONTROLLER else (self._held,)


class SupervisedBroker:
    """A broker's process. `address` and `controller` are known once it serves.

    `kind` is the kind of its data directory for its program.
    """

    def __init__(
        self,
        plan: ClusterPlan,
        node_id: int,
        kind: str,
        lifelines: Lifelines,
        controller: Address,
        users: UsersFile | None = None,
    ) -> None:
        self._plan, self.node_id, self._kind, self._users = plan, node_id, kind, users
        self._lifelines, self.controller = lifelines, controller
        self.address = of_broker(plan.listen, node_id)
        self.cluster_id = ""
        self.told: tuple[str, ...] = ()
        """The sentences for the operator at the first start, which makes the users."""
        self._process: BrokerProcess | None = None
        self._ended: trio.Event

    async def run(self, serves: trio.Event) -> int:
        """Run the process to its end and return its exit code. Set `serves` once clients can connect."""
        options = self._plan.options(self.node_id, self.address, self.controller)
        held = self._lifelines.held(self.node_id)
        if self._users is not None and not serves.is_set():  # later, it would undo what `pykbroker users` has changed
            options += self._users.options()
            held = (*held, self._users.descriptor)
        self._ended = trio.Event()
        log, theirs = os.pipe()
        try:
            process = self._process = BrokerProcess(
                [sys.executable, "-m", member.__name__, self._plan.data_dir(self.node_id), self._kind, *options],
                stdin=self._lifelines.watched(self.node_id),
                stderr=theirs,
                held=held,
                environ=without_options(os.environ),
                own_session=True,  # Ctrl-C reaches only this process, which stops the brokers in order
            )
        finally:
            os.close(theirs)
        with closing(process):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._pass_on, trio.lowlevel.FdStream(log))
                while not self._ended.is_set():
                    await trio.lowlevel.wait_readable(process)
                    message = process.message()
                    if message is None:
                        self._ended.set()
                    elif isinstance(message, Announcement):
                        self.address, self.cluster_id = message.address, message.cluster_id
                        self.controller = message.controller or self.controller
                        if not serves.is_set():
                            self.told = message.told
                            if self._users is not None:
                                self._users.close()
                            serves.set()
            return process.ended()

    async def _pass_on(self, stream: trio.abc.ReceiveStream) -> None:
        """Write the log of the broker to stderr, each line after the broker's name."""
        async with stream:
            async for line in lines(stream):
                click.echo(f"broker {self.node_id}: {line}", err=True)

    async def stop(self) -> None:
        """Stop the process, and wait until it has ended."""
        if self._process is None or not self._process.runs:
            return
        self._process.send_signal(signal.SIGTERM)
        with trio.move_on_after(STOP_S_MAX):
            await self._ended.wait()
            return
        logger.error("broker %d did not stop within %d s and is killed", self.node_id, STOP_S_MAX)
        self.kill()

    def kill(self) -> None:
        """Kill the process, if it runs."""
        if self._process is not None:
            self._process.kill()


async def lines(stream: trio.abc.ReceiveStream) -> AsyncIterator[str]:
    """Yield the lines of a process's output."""
    rest = b""
    async for chunk in stream:
        *complete, rest = (rest + chunk).split(b"\n")
        rest = rest[-LINE_BYTES_MAX:]
        for line in complete:
            yield line.decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")


def run(plan: ClusterPlan, data_dir: str | None, users: Sequence[NewUser], *, memory: bool, restarts: bool) -> None:
    """Run the cluster until a signal.

    click.ClickException: a broker did not start, or died and is not restarted, or the directory or certificates cannot
    be made.
    click.exceptions.Exit: a second signal came before all brokers had stopped.
    """
    write_log(plan.log_level, "text")
    if unused := [name for name in WITHOUT_EFFECT if name in os.environ]:
        logger.info("Environment variables that pykbroker cluster has no use for: %s", ", ".join(unused))
    if reason := plan.refusal():
        raise click.UsageError(reason)
    with temporary_directory("pykbroker-cluster-") if memory else nullcontext() as temporary:
        path = temporary or os.path.abspath(data_dir or f"{default_data_dir()}-cluster")
        try:
            make_data_dir(path)
        except StartError as error:
            raise click.ClickException(str(error)) from None
        warn_left_out(path, plan)
        plan = replace(plan, directory=path)
        make_certificates(plan)
        with closing(UsersFile(users)) if users else nullcontext() as file:
            supervisor = Supervisor(plan, member.TEMPORARY if memory else member.KEPT, file, restarts=restarts)
            trio.run(supervisor.run)
    if supervisor.failure:
        raise click.ClickException(supervisor.failure)
    if supervisor.is_impatient:
        raise click.exceptions.Exit(EXIT_CODE_IMPATIENT)


def make_certificates(plan: ClusterPlan) -> None:
    """Make the certificates of all brokers, unless an earlier start has made them. click.ClickException: it fails."""
    if not plan.security.has_certificates:
        return
    from pykbroker.tls.own_certificates import keep_certificates

    try:
        for node_id in range(1, plan.brokers + 1):
            directory, authority = plan.data_dir(node_id), plan.data_dir(CONTROLLER)
            make_data_dir(directory)
            name = certificate_name(node_id)
            with locked(directory):
                keep_certificates(directory, plan.hosts(node_id), time.time(), authority=authority, name=name)
    except StartError as error:
        raise click.ClickException(str(error)) from None


def how_to_connect(plan: ClusterPlan) -> Iterator[str]:
    """Yield what clients set to connect."""
    if plan.security.has_tls:
        yield trust([plan.security.protocol], os.path.join(plan.data_dir(CONTROLLER), AUTHORITY))
    if plan.security.users:
        yield log_in(plan.configs_of(CONTROLLER), [plan.security.listener])


def warn_left_out(path: str, plan: ClusterPlan) -> None:
    """Log a warning if the directory has the data of brokers that the cluster is started without."""
    found = sorted(int(name) for name in os.listdir(path) if name.isascii() and name.isdigit())
    left_out = [str(node_id) for node_id in found if node_id > plan.brokers]
    if left_out:
        logger.warning(
            "%s has data of broker %s, which --brokers %d does not start: partitions with a replica there may have no"
            " leader. Start with --brokers %s, or move their replicas first (pykbroker topics reassign).",
            path,
            ", ".join(left_out),
            plan.brokers,
            left_out[-1],
        )


class Supervisor:
    """The owner of the brokers' processes, and of the directory that has the data directory of each.

    `failure` is the reason, a sentence, if the cluster has stopped without a signal. `is_impatient` is whether a second
    signal has killed the brokers that had not stopped.
    """

    def __init__(self, plan: ClusterPlan, kind: str, users: UsersFile | None = None, *, restarts: bool) -> None:
        self._plan, self._kind, self._users, self._restarts = plan, kind, users, restarts
        self._lifelines = Lifelines()
        self._nodes: list[SupervisedBroker] = []
        self._stopping, self.failure, self.is_impatient = trio.Event(), "", False

    async def run(self) -> None:
        """Run until a signal or a failure."""
        with trio.open_signal_receiver(*STOPPING) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._stop_at_signal, signals)
                async with trio.open_nursery() as running:
                    try:
                        await self._start(running)
                        await self._stopping.wait()
                        for node in reversed(self._nodes):  # the controller last
                            await node.stop()
                    finally:
                        for node in self._nodes:
                            node.kill()
                nursery.cancel_scope.cancel()

    async def _start(self, running: trio.Nursery) -> None:
        """Start all brokers, the controller first, and report the cluster once all of them serve."""
        controller, served = self._plan.controller, list[trio.Event]()
        for node_id in range(1, self._plan.brokers + 1):
            users = self._users if node_id == CONTROLLER else None
            node = SupervisedBroker(self._plan, node_id, self._kind, self._lifelines, controller, users)
            self._nodes.append(node)
            serves = trio.Event()
            served.append(serves)
            running.start_soon(self._keep, node, serves)
            creates = self._plan.topics and node_id == self._plan.brokers - 1
            if node_id == CONTROLLER or creates:  # the last broker creates topics on all others
                await self._until(served)
            controller = self._nodes[0].controller
        await self._until(served)
        if not self._stopping.is_set():
            of_brokers = [sentence for node in self._nodes for sentence in node.told]
            click.echo("\n".join([self._sentence(), *of_brokers, *how_to_connect(self._plan)]))

    async def _until(self, served: list[trio.Event]) -> None:
        """Wait until these brokers serve, or until the cluster stops."""
        async with trio.open_nursery() as nursery:

            async def give_up() -> None:
                await self._stopping.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(give_up)
            for serves in served:
                await serves.wait()
            nursery.cancel_scope.cancel()

    async def _keep(self, node: SupervisedBroker, serves: trio.Event) -> None:
        """Run a broker, and start it again whenever it dies after it has served."""
        while not self._stopping.is_set():
            code = await node.run(serves)
            if self._stopping.is_set():
                return
            why = f"broker {node.node_id} ended with exit code {code}"
            if not serves.is_set() or not self._restarts:
                self._fail(f"{why}{'' if serves.is_set() else ' before it served'}: the cluster stops")
                return
            logger.error("%s: starting it again", why)
            await trio.sleep(RESTART_S)

    def _fail(self, failure: str) -> None:
        self.failure = self.failure or failure
        self._stopping.set()

    async def _stop_at_signal(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            name, self.is_impatient = signal.Signals(number).name, self._stopping.is_set()
            what = "killing the brokers that have not stopped" if self.is_impatient else "stopping"
            logger.info("%s: %s.", name, what)
            self._stopping.set()
            if self.is_impatient:
                for node in self._nodes:
                    node.kill()

    def _sentence(self) -> str:
        addresses = ", ".join(str(node.address) for node in self._nodes)
        where = "no data is kept" if self._kind == member.TEMPORARY else f"data in {self._plan.directory}"
        return (
            f"pykbroker {VERSION} is a cluster of {self._plan.counted} on {addresses}"
            f" (cluster {self._nodes[0].cluster_id}, {where})"
        )
