"""The composition root: builds every part from the seams of a world, joins them, and owns the one nursery.

Start, from the ground up: the address is bound, so that one in use is an error at once; identity, log directories,
metadata log, controller; then the partitions as the committed metadata says, and registration. Only then can clients
connect. Stop goes the other way round.
"""

# fmt: off
from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import trio

from pykbroker.apis.cluster.alter_replica_log_dirs import AlterReplicaLogDirs
from pykbroker.apis.cluster.api_versions import ApiVersions
from pykbroker.apis.cluster.describe_cluster import DescribeCluster
from pykbroker.apis.cluster.describe_log_dirs import DescribeLogDirs
from pykbroker.apis.cluster.unregister_broker import UnregisterBroker
from pykbroker.apis.cluster.update_features import UpdateFeatures
from pykbroker.apis.configs.alter_client_quotas import AlterClientQuotas
from pykbroker.apis.configs.alter_configs import AlterConfigs
from pykbroker.apis.configs.describe_client_quotas import DescribeClientQuotas
from pykbroker.apis.configs.describe_configs import DescribeConfigs
from pykbroker.apis.configs.get_telemetry_subscriptions import GetTelemetrySubscriptions
from pykbroker.apis.configs.incremental_alter_configs import IncrementalAlterConfigs
from pykbroker.apis.configs.list_config_resources import ListConfigResources
from pykbroker.apis.configs.push_telemetry import PushTelemetry
from pykbroker.apis.groups.consumer_group_describe import ConsumerGroupDescribe
from pykbroker.apis.groups.consumer_group_heartbeat import ConsumerGroupHeartbeat
from pykbroker.apis.groups.delete_groups import DeleteGroups
from pykbroker.apis.groups.describe_groups import DescribeGroups
from pykbroker.apis.groups.find_coordinator import GROUP, TRANSACTION, FindCoordinator
from pykbroker.apis.groups.heartbeat import Heartbeat
from pykbroker.apis.groups.join_group import JoinGroup
from pykbroker.apis.groups.leave_group import LeaveGroup
from pykbroker.apis.groups.list_groups import ListGroups
from pykbroker.apis.groups.offset_commit import OffsetCommit
from pykbroker.apis.groups.offset_delete import OffsetDelete
from pykbroker.apis.groups.offset_fetch import OffsetFetch
from pykbroker.apis.groups.sync_group import SyncGroup
from pykbroker.apis.raft.add_raft_voter import AddRaftVoter
from pykbroker.apis.raft.describe_quorum import DescribeQuorum
from pykbroker.apis.raft.remove_raft_voter import RemoveRaftVoter
from pykbroker.apis.records.delete_records import DeleteRecords
from pykbroker.apis.records.describe_producers import DescribeProducers
from pykbroker.apis.records.fetch import Fetch
from pykbroker.apis.records.list_offsets import ListOffsets
from pykbroker.apis.records.offset_for_leader_epoch import OffsetForLeaderEpoch
from pykbroker.apis.records.produce import Produce
from pykbroker.apis.security.alter_user_scram_credentials import AlterUserScramCredentials
from pykbroker.apis.security.create_acls import CreateAcls
from pykbroker.apis.security.create_delegation_token import CreateDelegationToken
from pykbroker.apis.security.delete_acls import DeleteAcls
from pykbroker.apis.security.describe_acls import DescribeAcls
from pykbroker.apis.security.describe_delegation_token import DescribeDelegationToken
from pykbroker.apis.security.describe_user_scram_credentials import DescribeUserScramCredentials
from pykbroker.apis.security.expire_delegation_token import ExpireDelegationToken
from pykbroker.apis.security.renew_delegation_token import RenewDelegationToken
from pykbroker.apis.security.sasl_authenticate import SaslAuthenticate
from pykbroker.apis.security.sasl_handshake import SaslHandshake
from pykbroker.apis.topics.alter_partition_reassignments import AlterPartitionReassignments
from pykbroker.apis.topics.create_partitions import CreatePartitions
from pykbroker.apis.topics.create_topics import CreateTopics
from pykbroker.apis.topics.delete_topics import DeleteTopics
from pykbroker.apis.topics.describe_topic_partitions import DescribeTopicPartitions
from pykbroker.apis.topics.elect_leaders import ElectLeaders
from pykbroker.apis.topics.list_partition_reassignments import ListPartitionReassignments
from pykbroker.apis.topics.metadata import Metadata
from pykbroker.apis.transactions.add_offsets_to_txn import AddOffsetsToTxn
from pykbroker.apis.transactions.add_partitions_to_txn import AddPartitionsToTxn
from pykbroker.apis.transactions.describe_transactions import DescribeTransactions
from pykbroker.apis.transactions.end_txn import EndTxn
from pykbroker.apis.transactions.init_producer_id import InitProducerId
from pykbroker.apis.transactions.list_transactions import ListTransactions
from pykbroker.apis.transactions.txn_offset_commit import TxnOffsetCommit
from pykbroker.apis.transactions.write_txn_markers import WriteTxnMarkers
from pykbroker.coordinator.batches import Batches
from pykbroker.coordinator.runtime import Runtime
from pykbroker.coordinator.transaction_coordinator import TransactionCoordinator
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.live_config import LiveConfig
from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.coordinator.key import partition_of
from pykbroker.core.coordinator.topic import CoordinatorTopic, groups_topic, transactions_topic
from pykbroker.core.descriptors import Descriptors
from pykbroker.core.errors import ApiError, StartError, StopError
from pykbroker.core.fetch.session_cache import FetchSessionCache
from pykbroker.core.fetch.session_cache import Statistics as SessionStatistics
from pykbroker.core.group.asked import ForgetTopics
from pykbroker.core.group.machine import GroupMachine
from pykbroker.core.group.offsets import read_run
from pykbroker.core.group.settings import GroupSettings
from pykbroker.core.metadata.image import Delta, Endpoint, MetadataImage
from pykbroker.core.metadata.settings import ControllerSettings
from pykbroker.core.names import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from pykbroker.core.security.authorizer import AllowAll
from pykbroker.core.settings import Ready, Serving, Settings
from pykbroker.core.telemetry.clients import TelemetryClients
from pykbroker.quorum.automatic_topics import AutomaticTopics
from pykbroker.quorum.controller import Controller, JournalFailed
from pykbroker.quorum.identity import BrokerIdentity, prepare
from pykbroker.quorum.lifecycle import Lifecycle
from pykbroker.quorum.metadata_log import open_metadata_log
from pykbroker.quorum.producer_ids import ProducerIds
from pykbroker.quorum.rules import LogRules
from pykbroker.quorum.start import start_controller
from pykbroker.quorum.statistics import ControllerStatistics
from pykbroker.replica.own_log import OwnLog
from pykbroker.replica.places import Places
from pykbroker.replica.replicas import Replicas
from pykbroker.replica.scrubber import Scrubber, ScrubSettings, ScrubStatistics
from pykbroker.replica.statistics import ReplicaStatistics
from pykbroker.replica.topic_configs import TopicConfigs
from pykbroker.replica.upkeep import Upkeep
from pykbroker.server.advertised import Advertised
from pykbroker.server.answers import Answers
from pykbroker.server.handler import Handler
from pykbroker.server.host_names import HostNames
from pykbroker.server.limits import Limits, overrides
from pykbroker.server.listener import Listener
from pykbroker.server.metrics import ServerStatistics
from pykbroker.server.table import ApiTable, served
from pykbroker.storage.cleaner.cleaner import Cleaner, CleanerSettings
from pykbroker.storage.directory.log_directory import LOCK, LogDirectory
from pykbroker.storage.directory.statistics import DirectoryStatistics
from pykbroker.storage.log.opener import Opener
from pykbroker.world.disk import Disk
from pykbroker.world.net import Bound, NetStatistics, SocketOptions
from pykbroker.world.system import system_world
from pykbroker.world.turns import Turns
from pykbroker.world.world import World
from wire.error_codes import ErrorCode
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from wire.stored.group import GROUP_RECORDS

LISTENER_NAME = "PLAINTEXT"
GROUP_FEATURE = "group.version"
CLOSING_S_MAX = 30
"""How long an orderly stop may take."""
PLAINTEXT = 0

logger = logging.getLogger(__name__)


async def serve(
    settings: Settings, ready: Ready, *, world: World | None = None, stop: trio.Event | None = None
) -> None:
    """Run a broker until `stop` is set; `ready` is called once, when clients are served, unless it is set before.

    StartError says what keeps it from starting. Without a `world`, it is this machine's.
    """
    world = world or system_world(settings.data_dirs, durable=not settings.memory)
    bound = bind(world, settings)
    hosts = HostNames(world.net)
    try:
        await check_hosts(hosts, settings.config)
        broker = await Broker.open(settings, world, bound, hosts)
    except BaseException:
        bound.close()
        raise
    await broker.run(ready, trio.Event() if stop is None else stop)


def bind(world: World, settings: Settings) -> Bound:
    """Bind before anything on disk is touched, so that a taken port changes nothing."""
    host, port = settings.listen_host, settings.listen_port
    try:
        return world.net.bind(host, port, socket_options(settings.config))
    except OSError as error:
        raise refused_address(host, port, error) from None


def listen(bound: Bound) -> None:
    """Let clients connect. StartError: another broker listens on the address already."""
    try:
        bound.listen()
    except OSError as error:
        raise refused_address(bound.host, bound.port, error) from None


def refused_address(host: str, port: int, error: OSError) -> StartError:
    """Why clients cannot be served there."""
    if error.errno == errno.EADDRINUSE:
        return StartError(f"port {port} on {host} is in use, perhaps by another broker. Stop it, or choose a port with"
                          f" --listen {host}:PORT (0 takes any free one).")
    return StartError(f"cannot listen on {host}:{port}: {error.strerror or error}. Choose an address of this machine"
                      " with --listen HOST:PORT.")


async def check_hosts(hosts: HostNames, config: BrokerConfig) -> None:
    """The hosts that the configs of this start name can be found."""
    for host, addresses in (await hosts.addresses(overrides(config))).items():
        if not addresses:
            raise StartError(f"max.connections.per.ip.overrides: nobody knows the address of {host}. Correct the name,"
                             " or give its address.")


def socket_options(config: BrokerConfig) -> SocketOptions:
    """What the kernel gives the clients' sockets."""
    return SocketOptions(
        config.socket_listen_backlog_size, config.socket_send_buffer_bytes, config.socket_receive_buffer_bytes
    )


@dataclass(frozen=True, slots=True)
class BrokerStatistics:
    """What all parts of a broker have counted, as the metrics see it."""

    server: ServerStatistics
    fetch_sessions: SessionStatistics
    net: NetStatistics
    directories: tuple[DirectoryStatistics, ...]
    replicas: ReplicaStatistics
    scrub: ScrubStatistics
    controller: ControllerStatistics


class Broker:
    """All parts of one broker, built but idle until `run`."""

    def __init__(
        self, settings: Settings, config: LiveConfig, world: World, bound: Bound, hosts: HostNames,
        identity: BrokerIdentity,
        directories: tuple[LogDirectory, ...], controller: Controller, replicas: Replicas, descriptors: Descriptors,
        turns: Turns,
    ) -> None:
        self._settings, self._config, self._identity = settings, config, identity
        self._world, self._bound, self._hosts = world, bound, hosts
        self._serving: Listener | None = None
        self._descriptors, self._turns = descriptors, turns
        self._directories, self._controller, self._replicas = directories, controller, replicas
        opened = {directory.path for directory in directories}
        self._refused = tuple(path for path in settings.data_dirs if path not in opened)
        self._upkeep = Upkeep(self._replicas, directories, settings.config, world.wall_ms)
        self._cleaner = Cleaner(replicas.all_online, world.workers, self._cleaner_settings, world.wall_ms)
        self._scrubber = Scrubber(replicas.all_online, ScrubSettings.of(settings.config))
        slots = settings.config.max_incremental_fetch_session_cache_slots
        self._fetch_sessions = FetchSessionCache(slots, world.rng)
        self._lifecycle = Lifecycle(controller, identity, world.rng)
        self._groups = groups_runtime(settings.config, world, lambda: controller.images.current, turns)
        self._producer_ids = ProducerIds(controller, identity.node_id, lambda: self._lifecycle.broker_epoch)
        self._transactions = TransactionCoordinator(
            settings.config, self._image, self._producer_ids, self._groups,
            lambda topic, index: OwnLog(replicas.partition(topic, index)), world.wall_ms,
            world.off_loop, turns,
        )

    @classmethod
    async def open(cls, settings: Settings, world: World, bound: Bound, hosts: HostNames) -> Broker:
        """Open what is on disk, or format it where there is nothing. Nothing stays locked when that fails."""
        config, live = settings.config, LiveConfig(settings.config)
        descriptors = Descriptors(world.open_files_max, len(world.disks), config.pykbroker_client_descriptors_min)
        descriptors.check_start()
        configs, turns = TopicConfigs(live), Turns(world.ticks_ns)
        directories: list[LogDirectory] = []
        try:
            world = await open_directories(world, directories, descriptors)
            identity = await prepare(world.disks, config.node_id, world.rng, world.wall_ms())
            places = Places(tuple(directories), identity.directory_ids)
            rules = LogRules.of(config)
            journal = await open_metadata_log(world.disks[0], world.off_loop, rules)
            controller = await start_controller(
                journal, world.disks[0],
                ControllerSettings.of(config, identity.node_id, identity.cluster_id, descriptors),
                configs, world.rng, world.wall_ms, world.off_loop, rules, turns,
            )
        except BaseException as failure:
            with trio.CancelScope(shield=True):
                await leave_untouched(directories)
            if isinstance(failure, OSError):
                raise StartError(f"a log directory refuses what a start needs: {failure}") from failure
            raise
        replicas = Replicas(identity.node_id, places, configs, descriptors)
        return cls(settings, live, world, bound, hosts, identity, tuple(directories), controller, replicas,
                   descriptors, turns)

    async def run(self, ready: Ready, stop: trio.Event) -> None:
        """Serve until `stop`, then leave the directories as an orderly stop leaves them."""
        try:
            refusal = await self._live(ready, stop)
        except BaseException:
            for disk in self._world.disks:
                disk.unlock(LOCK)
            raise
        finally:
            self._bound.close()
        with trio.CancelScope(shield=True):
            unclosed = await self._close()
        if refusal is not None:
            raise refusal
        if unclosed is not None:
            raise unclosed

    async def _live(self, ready: Ready, stop: trio.Event) -> StartError | None:
        """All tasks of the broker, from its first record to its last; what kept it from serving, if something did."""
        refusal = None
        async with trio.open_nursery() as house:
            house.start_soon(self._controller.run)
            house.start_soon(self._controller.snapshotter.run)
            house.start_soon(self._follow_metadata)
            house.start_soon(self._keep_metadata)
            for directory in self._directories[1:]:
                house.start_soon(directory.run)
            house.start_soon(self._upkeep.run)
            if self._settings.config.log_cleaner_enable:
                house.start_soon(self._cleaner.run)
            if not self._settings.memory:
                house.start_soon(self._scrubber.run)
            house.start_soon(self._groups.run)
            house.start_soon(self._transactions.run)
            try:
                await self._join()
                await self._serve_clients(ready, stop)
            except StartError as error:
                refusal = error
            except ApiError as error:
                refusal = StartError(f"the controller does not take this broker in ({error}): the log says why")
            with trio.move_on_after(CLOSING_S_MAX, shield=True) as closing:
                await self._shut_down()
            if closing.cancelled_caught:
                logger.error("controlled shutdown timed out after %d s", CLOSING_S_MAX)
            house.cancel_scope.cancel()
        return refusal

    async def _keep_metadata(self) -> None:
        """Look after the log directory that holds the metadata. As in Kafka, there is no broker without it."""
        directory = self._directories[0]
        await directory.run()
        raise JournalFailed(directory.path, directory.failed) from directory.failed

    async def _shut_down(self) -> None:
        """Give up leadership. What cannot be written down (a full disk) the next start finds out."""
        try:
            await self._lifecycle.shut_down()
        except ApiError as error:
            logger.error("controlled shutdown failed: %s", error)

    async def _serve_clients(self, ready: Ready, stop: trio.Event) -> None:
        limits, bound = await self._limits(self._image()), self._bound
        if not stop.is_set():
            listen(bound)
        async with trio.open_nursery() as clients:
            listener = self._serving = self._listener(clients, limits)
            clients.start_soon(listener.run)
            clients.start_soon(self._world.net.run, listener)
            clients.start_soon(self._replicas.moves.run, self._lifecycle.assign)
            logger.info("%s: %d of at most %d partitions are open, which leaves room for %d connections",
                        self._descriptors.limit_text(), self._replicas.open_logs, self._descriptors.partitions_max,
                        self._connections_max())
            if not stop.is_set():
                identity = self._identity
                ready(Serving(bound.host, bound.port, identity.cluster_id, identity.node_id,
                              partial(self._statistics, listener)))
            await stop.wait()
            bound.close()
            clients.cancel_scope.cancel()

    def _statistics(self, listener: Listener) -> BrokerStatistics:
        return BrokerStatistics(
            server=listener.statistics(),
            fetch_sessions=self._fetch_sessions.statistics(),
            net=self._world.net.statistics(),
            directories=tuple(directory.statistics() for directory in self._directories),
            replicas=self._replicas.statistics(),
            scrub=self._scrubber.statistics(),
            controller=self._controller.statistics(),
        )

    async def _close(self) -> StopError | None:
        """Close the logs, that of the metadata first: a directory is unlocked when nothing more is written to it.

        The error says which directory refused to be closed in order.
        """
        refusals: dict[str, OSError] = {}
        try:
            await self._controller.close()
        except OSError as refusal:
            refusals[self._directories[0].path] = refusal
        for directory in self._directories:
            refused = await directory.close(
                broker_epoch=self._lifecycle.broker_epoch, high_watermarks=self._replicas.high_watermarks(directory)
            )
            if refused is not None:
                refusals.setdefault(directory.path, refused)
        return unclosed(refusals) if refusals else None

    async def _follow_metadata(self) -> None:
        """The one task that hands committed metadata downwards, in a fixed order."""
        async for delta in self._controller.images.updates():
            await self._replicas.apply(delta)
            if delta.configs_changed and self._serving is not None:
                self._serving.limit(await self._limits(delta.image))
            await self._assign(delta)
            self._coordinate(delta)

    async def _assign(self, delta: Delta) -> None:
        try:
            await self._lifecycle.assign(await self._replicas.misplaced(delta))
        except ApiError as refusal:
            logger.warning("the controller does not note in which log directories new partitions lie: %s. The next"
                           " start tells it again.", refusal)

    def _coordinate(self, delta: Delta) -> None:
        """Which partitions of the coordinators' topics are led here, and which topics nobody can commit for now."""
        for name, coordinator in ((GROUP_METADATA_TOPIC, self._groups), (TRANSACTION_STATE_TOPIC, self._transactions)):
            topic = delta.image.topics.by_name.get(name)
            if topic is not None:
                led = {index: OwnLog(partition) for index, partition in self._replicas.led(topic.id).items()}
                coordinator.follow(len(topic.partitions), led)
        gone = frozenset(one.name for one in delta.topics_deleted if one.name not in delta.image.topics.by_name)
        if gone:
            self._groups.notify(ForgetTopics(gone))

    async def _join(self) -> None:
        """Register, take leadership, and make the topics that were asked for at start."""
        settings, bound = self._settings, self._bound
        host, port = settings.advertise_host or bound.host, settings.advertise_port or bound.port
        endpoint = Endpoint(name=LISTENER_NAME, host=host, port=port, security_protocol=PLAINTEXT)
        await self._lifecycle.register_controller([endpoint])
        clean = all(directory.clean for directory in self._directories)
        await self._lifecycle.register([endpoint], settings.config.broker_rack, clean=clean)
        await self._lifecycle.unfence()
        known = self._controller.images.current.topics.by_name
        for name, partitions in settings.topics:
            if name in known and len(known[name].partitions) != partitions:
                logger.warning("the topic %s has %d partitions and keeps them", name, len(known[name].partitions))
        topics = [
            CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1)
            for name, partitions in settings.topics
            if name not in known
        ]
        if topics:
            response = await self._controller.create_topics(CreateTopicsRequest(topics=topics))
            for result in response.topics:
                if result.error_code:
                    reason = result.error_message or ErrorCode(result.error_code).name
                    raise StartError(f"cannot create the topic {result.name}: {reason}")

    # ---- the table of APIs

    def _listener(self, clients: trio.Nursery, limits: Limits) -> Listener:
        handlers = self._handlers(limits)
        image = partial(getattr, self._controller.images, "current")
        handlers.append(ApiVersions(served([*handlers, ApiVersions((), image)]), image))
        return Listener(ApiTable(handlers), clients, self._turns, limits, self._connections_max)

    def _connections_max(self) -> int:
        return self._descriptors.connections_max(self._replicas.open_logs)

    async def _limits(self, image: MetadataImage) -> Limits:
        """What clients are held to, as the configs of the moment say."""
        config = self._config.under(image.configs.dynamic(self._identity.node_id))
        return Limits.of(config, await self._hosts.addresses(overrides(config)))

    def _handlers(self, limits: Limits) -> list[Handler]:
        config, identity, authorizer = self._settings.config, self._identity, AllowAll()
        controller, replicas, groups = self._controller, self._replicas, self._groups
        node_id, cluster_id = identity.node_id, identity.cluster_id
        image = partial(getattr, controller.images, "current")
        advertised = Advertised(self._advertised())
        transactions, endings = self._transactions.transactions, self._transactions.endings
        automatic = AutomaticTopics(controller, self._world.ticks_ns)
        return [
            Produce(replicas, authorizer, self._world.wall_ms, transactions, self._verifies_transactions),
            Fetch(replicas, authorizer, self._fetch_sessions, self._world.ticks_ns, config.fetch_max_bytes, node_id,
                  config.broker_rack, advertised),
            ListOffsets(replicas, authorizer),
            Metadata(node_id, cluster_id, image, automatic, advertised, authorizer, config.auto_create_topics_enable,
                     replicas, Answers()),
            CreateTopics(controller, authorizer),
            DeleteTopics(controller, image, authorizer, config.delete_topic_enable),
            InitProducerId(self._producer_ids, transactions, authorizer),
            OffsetForLeaderEpoch(replicas, authorizer),
            DeleteRecords(replicas, authorizer),
            DescribeProducers(image, replicas, authorizer),
            AlterReplicaLogDirs(replicas, authorizer),
            DescribeLogDirs(self._directories, self._world.disks, self._refused, replicas, authorizer),
            DescribeConfigs(node_id, self._config, image, authorizer, limits.answer_bytes_max),
            ListConfigResources(image, authorizer),
            CreatePartitions(controller, authorizer),
            ElectLeaders(controller, authorizer),
            AlterPartitionReassignments(controller, authorizer),
            ListPartitionReassignments(image, authorizer),
            DescribeQuorum(node_id, controller, advertised, self._world.wall_ms, authorizer),
            AddRaftVoter(cluster_id, image, authorizer, LISTENER_NAME),
            RemoveRaftVoter(cluster_id, image, authorizer),
            DescribeAcls(), CreateAcls(), DeleteAcls(), SaslHandshake(), SaslAuthenticate(),
            CreateDelegationToken(), RenewDelegationToken(), ExpireDelegationToken(), DescribeDelegationToken(),
            AlterConfigs(controller, authorizer), IncrementalAlterConfigs(node_id, controller, authorizer),
            UpdateFeatures(controller, authorizer), UnregisterBroker(controller, authorizer),
            DescribeClientQuotas(image, authorizer), AlterClientQuotas(controller, authorizer),
            DescribeUserScramCredentials(image, authorizer), AlterUserScramCredentials(controller, authorizer),
            DescribeCluster(node_id, cluster_id, image, advertised, authorizer),
            FindCoordinator(node_id, image, automatic, self._coordinator_topics(), advertised, authorizer),
            JoinGroup(groups, authorizer), SyncGroup(groups, authorizer), Heartbeat(groups, authorizer),
            LeaveGroup(groups, authorizer), OffsetCommit(groups, image, authorizer),
            OffsetFetch(groups, image, authorizer), OffsetDelete(groups, image, authorizer),
            ConsumerGroupHeartbeat(groups, authorizer, self._has_consumer_groups),
            ConsumerGroupDescribe(groups, authorizer, self._has_consumer_groups),
            ListGroups(groups, authorizer), DescribeGroups(groups, authorizer), DeleteGroups(groups, authorizer),
            AddPartitionsToTxn(transactions, image, authorizer),
            AddOffsetsToTxn(transactions, self._group_partition, authorizer),
            EndTxn(transactions, authorizer), WriteTxnMarkers(endings, authorizer),
            TxnOffsetCommit(transactions, groups, replicas, image, self._world.wall_ms, self._verifies_transactions,
                            authorizer),
            DescribeTransactions(transactions, authorizer),
            ListTransactions(transactions, self._world.wall_ms, authorizer, self._world.off_loop),
            DescribeTopicPartitions(
                image, authorizer, config.max_request_partition_size_limit, node_id, replicas),
            *self._telemetry(config.telemetry_max_bytes),
        ]

    def _telemetry(self, bytes_max: int) -> list[Handler]:
        clients, world = TelemetryClients(), self._world
        return [GetTelemetrySubscriptions(clients, self._image, world.rng, world.ticks_ns, bytes_max),
                PushTelemetry(clients, self._image, world.ticks_ns, bytes_max)]

    def _image(self) -> MetadataImage:
        return self._controller.images.current

    def _coordinator_topics(self) -> dict[int, CoordinatorTopic]:
        return {GROUP: groups_topic(self._settings.config), TRANSACTION: transactions_topic(self._settings.config)}

    def _group_partition(self, group: str) -> int:
        """Where a group belongs, also while its topic is not made yet."""
        topic = self._image().topics.by_name.get(GROUP_METADATA_TOPIC)
        made = self._settings.config.offsets_topic_num_partitions if topic is None else len(topic.partitions)
        return partition_of(group, made)

    def _cleaner_settings(self) -> CleanerSettings:
        """What compaction keeps to, as the configs of the moment say."""
        return CleanerSettings.of(self._config.under(self._image().configs.dynamic(self._identity.node_id)))

    def _verifies_transactions(self) -> bool:
        dynamic = self._image().configs.dynamic(self._identity.node_id)
        return self._config.under(dynamic).transaction_partition_verification_enable

    def _has_consumer_groups(self) -> bool:
        """Whether the new group protocol is switched on, here and in the cluster."""
        level = self._controller.images.current.features.level(GROUP_FEATURE)
        return level > 0 and "consumer" in self._settings.config.group_coordinator_rebalance_protocols

    def _advertised(self) -> tuple[str, int] | None:
        settings = self._settings
        if settings.advertise_host is None:
            return None
        return settings.advertise_host, settings.advertise_port or self._bound.port


def groups_runtime(config: BrokerConfig, world: World, image: Callable[[], MetadataImage], turns: Turns) -> Runtime:
    """The machines of groups, none of them led yet."""
    settings = GroupSettings.of(config)
    return Runtime(GROUP_METADATA_TOPIC, lambda: GroupMachine(
        settings, world.rng, lambda: image().topics, lambda group: image().configs.of(ConfigResource.GROUP, group),
    ), Batches(GROUP_RECORDS, 0, read_run=read_run), world.wall_ms, world.off_loop, turns)


async def open_directory(world: World, disk: Disk, opener: Opener, descriptors: Descriptors) -> LogDirectory:
    """Lock and read one directory."""
    return await LogDirectory.open(disk, off_loop=world.off_loop, wall_ms=world.wall_ms, jitter=world.rng.random,
                                   opener=opener, loaded_max=descriptors.sealed_segments_max)


async def open_directories(world: World, directories: list[LogDirectory], descriptors: Descriptors) -> World:
    """Lock and read them all, before anything else is read or written; the world of the disks that let it happen.

    OSError: the first one, which holds the metadata, does not.
    """
    disks: list[Disk] = []
    opener = Opener(world.off_loop)
    for disk in world.disks:
        try:
            directories.append(await open_directory(world, disk, opener, descriptors))
        except OSError as refusal:
            if not disks:
                raise
            logger.error("%s cannot be opened (%s): what lies in it is offline. Mend it and start again, or take it out"
                         " of log.dirs", disk.path, refusal)
        else:
            disks.append(disk)
    return replace(world, disks=tuple(disks))


def unclosed(refusals: Mapping[str, OSError]) -> StopError:
    """By the path of a log directory: what it refused when it was closed."""
    said = "; ".join(f"{path} ({refusal})" for path, refusal in refusals.items())
    return StopError(f"the broker stopped without closing its log directories in order: {said}. The next start reads"
                     " their logs as after a crash: free space there, or mend the disk, before it.")


async def leave_untouched(directories: Sequence[LogDirectory]) -> None:
    """This broker does not start: let go of its directories, and let those that were clean stay so."""
    for directory in directories:
        await directory.leave_untouched()
