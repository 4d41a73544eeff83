"""The lifecycle of one broker: run, controlled shutdown, and closing of its log directories."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import trio

from pykbroker.broker.address import close, listen
from pykbroker.broker.directories import unclosed
from pykbroker.broker.directory_states import DirectoryFailures
from pykbroker.broker.handlers.controllers import controller_table
from pykbroker.broker.handlers.table import api_table
from pykbroker.broker.metadata import MetadataPublisher, limits_under
from pykbroker.broker.observer import BrokerObserver
from pykbroker.broker.parts import Parts
from pykbroker.broker.registration import register
from pykbroker.core.address import Address
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.errors import ApiError, StartError, StopError
from pykbroker.core.security.session import Session
from pykbroker.core.settings import Ready, Serving
from pykbroker.quorum.controller import JournalFailed
from pykbroker.quorum.heartbeat_links import HeartbeatLinks
from pykbroker.quorum.quorum_leader import QuorumLeader
from pykbroker.replica.care.unwritable_replicas import UnwritableReplicas
from pykbroker.replica.leading.isr_changes import IsrChanges
from pykbroker.server.connections import Connections, ignore
from pykbroker.server.limits import Limits
from pykbroker.server.listener import Listener
from pykbroker.server.table import ApiTable
from pykbroker.storage.files.lock import LOCK
from wire.error_codes import ErrorCode
from wire.sentinels import NO_BROKER_EPOCH

CLOSING_S_MAX = 20
"""The time that a controlled shutdown may take. While the controller's host does not answer it takes all of it.

Supervisors such as Kubernetes kill a process 30 s after SIGTERM, and the logs must be closed before that.
"""

REFUSED_S_MAX = 3.0
"""The time that a controlled shutdown waits for a controller whose port refuses connections: it may be starting."""

ADVICE = {
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "a broker with this node.id is running: give each broker a node.id of its"
    " own, or stop the other one",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "correct controller.quorum.bootstrap.servers, or name other directories in"
    " log.dirs",
    ErrorCode.INVALID_REGISTRATION: "each log directory may belong to one broker only: format a copied directory anew",
    ErrorCode.UNSUPPORTED_VERSION: "install the version of pykbroker that the other nodes have",
}
"""The advice for an error of a registration."""

logger = logging.getLogger(__name__)


class Broker:
    """A broker that serves clients while `run` runs."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._publisher = MetadataPublisher(parts)
        self._of_controllers: Connections | None = None
        self._of_clients: Connections | None = None
        self._of_nodes: list[Connections] = []
        self._new_users: frozenset[str] = frozenset()

    async def run(self, ready: Ready, stop: trio.Event) -> None:
        """Serve clients until `stop` is set, then shut down and close the log directories.

        Raise StartError or StopError.
        """
        try:
            refusal = await self._live(ready, stop)
        except BaseException:
            for disk in self._parts.world.disks:
                disk.unlock(LOCK)
            raise
        finally:
            self._parts.listeners.close()
            close(self._parts.controller_bound)
        with trio.CancelScope(shield=True):
            failure = await self._close()
        if refusal is not None:
            raise refusal
        if failure is not None:
            raise failure

    async def _live(self, ready: Ready, stop: trio.Event) -> StartError | None:
        """Run all tasks of the broker until it stops. Return the error of a failed start, otherwise None."""
        refusal = None
        async with trio.open_nursery() as nursery:
            self._start_tasks(nursery)
            try:
                await self._serve_controllers(nursery)
                self._new_users = await register(self._parts)
                nursery.start_soon(self._parts.lifecycle.run)
                nursery.start_soon(self._directory_failures().run)
                await self._serve_clients(ready, stop)
            except StartError as error:
                refusal = error
            except ApiError as error:
                refusal = refused_registration(error)
            with trio.move_on_after(CLOSING_S_MAX, shield=True) as closing:
                await self._shut_down()
            if closing.cancelled_caught:
                logger.error("controlled shutdown timed out after %d s", CLOSING_S_MAX)
            close(self._parts.controller_bound)
            if self._of_controllers is not None:
                self._of_controllers.close()  # a later request would find no task that answers it
            nursery.cancel_scope.cancel()
        return refusal

    def _start_tasks(self, nursery: trio.Nursery) -> None:
        parts = self._parts
        nursery.start_soon(parts.quorum.run)
        nursery.start_soon(parts.quorum.snapshotter.run)
        nursery.start_soon(self._publisher.run)
        nursery.start_soon(self._publisher.reports.run)
        nursery.start_soon(parts.secured.run, parts.current_config)
        nursery.start_soon(self._keep_metadata)
        for directory in parts.directories[1:]:
            nursery.start_soon(directory.run)
        nursery.start_soon(parts.ongoing.run)
        if parts.decision_rates is not None:
            nursery.start_soon(parts.decision_rates.run)
        nursery.start_soon(parts.upkeep.run)
        if parts.settings.config.log_cleaner_enable:
            nursery.start_soon(parts.cleaner.run)
        if not parts.settings.memory:
            nursery.start_soon(parts.scrubber.run)
        nursery.start_soon(parts.groups.run)
        nursery.start_soon(parts.transactions.run)
        # A fenced broker fetches already, and one in controlled shutdown still does, so that no leader waits for it.
        nursery.start_soon(parts.replicas.fetchers.run)
        nursery.start_soon(IsrChanges(parts.isr_keeper, parts.controller).run)

    def _directory_failures(self) -> DirectoryFailures:
        parts = self._parts
        timeout_ms = parts.settings.config.log_dir_failure_timeout_ms
        return DirectoryFailures(parts.replicas.places, parts.lifecycle, timeout_ms)

    async def _keep_metadata(self) -> None:
        """Run the log directory of the metadata log. If the directory fails the broker stops, as in Kafka."""
        directory = self._parts.directories[0]
        await directory.run()
        raise JournalFailed(directory.path, directory.failed) from directory.failed

    async def _shut_down(self) -> None:
        """Give up all leaderships, unless `controlled.shutdown.enable` is false, or no one is there to take them.

        If the disk is too full to record that, the next start recovers as after a crash.
        """
        parts, settings = self._parts, self._parts.settings
        if parts.lifecycle.broker_epoch == NO_BROKER_EPOCH or not settings.config.controlled_shutdown_enable:
            return
        if settings.discards and not settings.has_other_nodes:
            return
        async with trio.open_nursery() as nursery:
            if parts.remote_controller is not None:
                nursery.start_soon(self._stop_waiting, parts.remote_controller.leader, nursery.cancel_scope)
            try:
                await parts.lifecycle.shut_down()
            except ApiError as error:
                logger.error("controlled shutdown failed: %s", error)
            nursery.cancel_scope.cancel()

    async def _stop_waiting(self, leader: QuorumLeader, shutting_down: trio.CancelScope) -> None:
        """Cancel the controlled shutdown once every controller has refused connections for `REFUSED_S_MAX`."""
        await leader.wait_refused(REFUSED_S_MAX)
        logger.error("controlled shutdown failed: the controller has refused connections for %g s", REFUSED_S_MAX)
        shutting_down.cancel()

    async def _serve_controllers(self, nursery: trio.Nursery) -> None:
        """Serve other nodes on the listeners of the controller, until the broker has stopped."""
        parts, controller = self._parts, self._parts.local_controller
        if controller is None or not parts.controller_bound:
            return
        limits = (await limits_under(parts, parts.image())).of_nodes()
        links = HeartbeatLinks(
            parts.world.net,
            lambda: controller.images.committed.cluster,
            parts.settings.inter_broker_listener,
            controller.note_gone,
        )
        table = controller_table(parts, controller, links, limits.answer_bytes_max)
        connections = self._of_controllers = self._connections_of_nodes(table, nursery, limits, links.closed)
        nursery.start_soon(connections.run)
        nursery.start_soon(links.run)
        for listener in parts.settings.controller_listeners:
            sasl = parts.logins.of(listener, parts.settings.config.texts)
            accepting = Listener(listener.name, connections, parts.acl_authorizer, sasl)
            listen(parts.controller_bound[listener.name], accepting, parts.secured.of(listener.name))

    async def _serve_clients(self, ready: Ready, stop: trio.Event) -> None:
        parts = self._parts
        await parts.listeners.follow(parts.current_config())
        limits = await limits_under(parts, parts.image())
        table = api_table(parts, limits.answer_bytes_max)
        refusal = None
        async with trio.open_nursery() as clients:
            connections = Connections(table, clients, parts.turns, limits, self._clients_max)
            self._of_clients = connections
            brokers = self._connections_of_brokers(table, clients, limits)
            try:
                if not stop.is_set():
                    parts.listeners.serve(
                        lambda one, config: self._acceptor(one, config, brokers.get(one.name, connections))
                    )
            except StartError as error:
                refusal = error
            else:
                self._start_serving(clients, [connections, *brokers.values()])
                await self._publisher.serve(connections, brokers.values())
                if not stop.is_set():
                    ready(self._serving([connections, *brokers.values()]))
                await stop.wait()
            parts.listeners.close()
            for open_ones in (connections, *brokers.values()):
                open_ones.close()
            clients.cancel_scope.cancel()
        if refusal is not None:
            raise refusal

    def _acceptor(self, listener: ListenerSettings, config: BrokerConfig, connections: Connections) -> Listener:
        """Return the acceptor of a listener for clients. Raise StartError if the config has no valid log-in for it."""
        parts = self._parts
        sasl = parts.logins.of(listener, config.texts)
        return Listener(listener.name, connections, parts.authorizer_of(listener.name), sasl)

    def _connections_of_brokers(self, table: ApiTable, clients: trio.Nursery, limits: Limits) -> dict[str, Connections]:
        """Return the connections of the listener for brokers, if it is bound apart from those for clients."""
        parts = self._parts
        if not parts.settings.has_broker_listener:
            return {}
        connections = self._connections_of_nodes(table, clients, limits.of_nodes())
        return {parts.settings.inter_broker_listener: connections}

    def _connections_of_nodes(
        self, table: ApiTable, tasks: trio.Nursery, limits: Limits, on_closed: Callable[[Session], None] = ignore
    ) -> Connections:
        """Return the connections of listeners for other nodes.

        No limit on clients applies to them, but strangers there must not use up the descriptors of all listeners.
        """
        made = Connections(table, tasks, self._parts.turns, limits, lambda: self._nodes_max(made), on_closed)
        self._of_nodes.append(made)
        return made

    def _clients_max(self) -> int:
        nodes = sum(map(len, self._of_nodes))
        return self._parts.descriptors.connections_max(self._parts.replicas.open_logs, nodes)

    def _nodes_max(self, connections: Connections) -> int:
        parts, clients = self._parts, 0 if self._of_clients is None else len(self._of_clients)
        others = sum(len(each) for each in self._of_nodes if each is not connections)
        return parts.descriptors.connections_of_nodes_max(parts.replicas.open_logs, clients, others)

    def _start_serving(self, clients: trio.Nursery, all_connections: Sequence[Connections]) -> None:
        parts = self._parts
        for connections in all_connections:
            clients.start_soon(connections.run)
        if not parts.settings.has_other_nodes:  # otherwise it runs already
            clients.start_soon(parts.world.net.run)
        clients.start_soon(parts.replicas.moves.run, parts.lifecycle.assign)
        clients.start_soon(parts.repairs.run, self._publisher.reports.note)
        clients.start_soon(UnwritableReplicas(parts.replicas).run, self._publisher.reports.note)
        logger.info(
            "%s: %d of at most %d partitions are open, which leaves room for %d connections",
            parts.descriptors.limit_text(),
            parts.replicas.open_logs,
            parts.descriptors.partitions_max,
            self._clients_max(),
        )

    def _serving(self, connections: Sequence[Connections]) -> Serving:
        identity = self._parts.identity
        listeners = {name: Address(bound.host, bound.port) for name, bound in self._parts.listeners.bound.items()}
        controllers = {name: Address(bound.host, bound.port) for name, bound in self._parts.controller_bound.items()}
        first = next(iter(listeners.values()))
        observed = connections if self._of_controllers is None else (*connections, self._of_controllers)
        return Serving(
            host=first.host,
            port=first.port,
            cluster_id=identity.cluster_id,
            node_id=identity.node_id,
            observer=BrokerObserver(self._parts, observed),
            listeners=listeners,
            controller_listeners=controllers,
            new_users=self._new_users,
        )

    async def _close(self) -> StopError | None:
        """Close the metadata log, then all other logs. A directory is unlocked last.

        Return the error for directories that could not be closed, or None.
        """
        parts, refusals = self._parts, dict[str, OSError]()
        try:
            await parts.quorum.close()
        except OSError as refusal:
            refusals[parts.directories[0].path] = refusal
        for directory in parts.directories:
            if parts.settings.discards:
                await directory.discard()
                continue
            refused = await directory.close(
                broker_epoch=parts.lifecycle.broker_epoch,
                high_watermarks=parts.replicas.high_watermarks(directory),
                complete=not parts.settings.memory,
            )
            if refused is not None:
                refusals.setdefault(directory.path, refused)
        return unclosed(refusals) if refusals else None


def refused_registration(error: ApiError) -> StartError:
    """Return the StartError for a registration that the controller refuses."""
    advice = ADVICE.get(error.code, "the broker's log has the reason")
    return StartError(f"the controller refuses to register this broker ({error}): {advice}")
