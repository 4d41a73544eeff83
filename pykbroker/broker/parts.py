"""The parts of a broker, opened and joined. The parts are idle until the broker runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import trio

from pykbroker.broker.address import BoundListeners, all_advertised
from pykbroker.broker.client_listeners import ClientListeners
from pykbroker.broker.current_config import CurrentConfig
from pykbroker.broker.directories import leave_untouched, open_directories
from pykbroker.broker.directory_states import DirectoryStates
from pykbroker.broker.inter_broker_endpoints import InterBrokerEndpoints
from pykbroker.broker.leader_links import BrokerLeaderLinks
from pykbroker.broker.log_ends import LOG_ENDS_S_MAX
from pykbroker.broker.logins import ListenerLogins
from pykbroker.broker.quorum import NodeQuorum, open_identity, open_quorum
from pykbroker.broker.secured_listeners import SecuredListeners
from pykbroker.client.link_settings import LinkSettings
from pykbroker.client.peers import Peers
from pykbroker.coordinator.batches import Batches
from pykbroker.coordinator.cluster import ClusterLeaders
from pykbroker.coordinator.runtime import Runtime
from pykbroker.coordinator.transaction_coordinator import TransactionCoordinator
from pykbroker.core.address import Address
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.live_config import LiveConfig
from pykbroker.core.config.resource import ConfigResource
from pykbroker.core.descriptors import Descriptors
from pykbroker.core.errors import StartError
from pykbroker.core.fetch.session_cache import FetchSessionCache
from pykbroker.core.group.machine import GroupMachine
from pykbroker.core.group.offsets import read_run
from pykbroker.core.group.settings import GroupSettings
from pykbroker.core.metadata.context import METADATA_FEATURE
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.core.names import GROUP_METADATA_TOPIC
from pykbroker.core.security.authorizer import DenyClusterAction
from pykbroker.core.security.session import Authorizer
from pykbroker.core.settings import Settings
from pykbroker.core.topic_partition import TopicPartition
from pykbroker.quorum.active_controller import ActiveController
from pykbroker.quorum.automatic_topics import AutomaticTopics
from pykbroker.quorum.controller import Controller
from pykbroker.quorum.identity import BrokerIdentity
from pykbroker.quorum.lifecycle import Lifecycle
from pykbroker.quorum.member import QuorumMember
from pykbroker.quorum.ongoing import OngoingWork
from pykbroker.quorum.producer_ids import ProducerIds
from pykbroker.replica.care.repairs import Repairs
from pykbroker.replica.care.scrubber import Scrubber, ScrubSettings
from pykbroker.replica.care.upkeep import Upkeep
from pykbroker.replica.following.fetch_settings import ReplicaFetchSettings
from pykbroker.replica.following.fetchers import Fetchers
from pykbroker.replica.leading.isr_keeper import IsrKeeper
from pykbroker.replica.partition.own_broker import OwnBroker
from pykbroker.replica.partition.own_log import OwnLog
from pykbroker.replica.placing.places import Places
from pykbroker.replica.quotas import ReplicationQuotas
from pykbroker.replica.replicas import Replicas
from pykbroker.replica.topic_configs import TopicConfigs
from pykbroker.server.endpoints import BrokerEndpoints
from pykbroker.server.forwarding import ControllerRequests
from pykbroker.server.host_names import HostNames
from pykbroker.storage.cleaner.cleaner import Cleaner, CleanerSettings
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.world.net import Bound
from pykbroker.world.turns import Turns
from pykbroker.world.world import World
from wire.stored.group import GROUP_RECORDS

if TYPE_CHECKING:
    from pykbroker.broker.decision_rates import DecisionRates
    from pykbroker.core.security.acl.authorizer import AclAuthorizer
    from pykbroker.quorum.remote_controller import RemoteController


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """All parts of one broker. `refused_paths` are the entries of log.dirs that could not be opened.

    Metadata is applied once `caught_up` is set.
    """

    settings: Settings
    world: World
    listeners: ClientListeners
    logins: ListenerLogins
    controller_bound: Mapping[str, Bound]
    hosts: HostNames
    identity: BrokerIdentity
    descriptors: Descriptors
    turns: Turns
    acl_authorizer: AclAuthorizer | None
    decision_rates: DecisionRates | None
    directories: tuple[LogDirectory, ...]
    refused_paths: tuple[str, ...]
    node_quorum: NodeQuorum
    caught_up: trio.Event
    image: Callable[[], MetadataImage]
    live_config: LiveConfig
    current_config: CurrentConfig
    lifecycle: Lifecycle
    ongoing: OngoingWork
    producer_ids: ProducerIds
    automatic_topics: AutomaticTopics
    replicas: Replicas
    isr_keeper: IsrKeeper
    repairs: Repairs
    upkeep: Upkeep
    cleaner: Cleaner
    scrubber: Scrubber
    groups: Runtime
    transactions: TransactionCoordinator
    fetch_sessions: FetchSessionCache
    endpoints: BrokerEndpoints
    peers_of_metrics: Peers

    @property
    def secured(self) -> SecuredListeners:
        """Return the TLS of the listeners that have it."""
        return self.listeners.secured

    @property
    def controller(self) -> ActiveController:
        return self.node_quorum.controller

    @property
    def quorum(self) -> QuorumMember:
        """Return the metadata log of this node."""
        return self.node_quorum.member

    @property
    def local_controller(self) -> Controller | None:
        """Return the controller if it runs in this process, else None."""
        return self.node_quorum.local

    @property
    def remote_controller(self) -> RemoteController | None:
        """Return the controller if it runs in another process, else None."""
        return self.node_quorum.remote

    @property
    def controller_requests(self) -> ControllerRequests:
        """Return the way of requests that handlers make in the name of a client to the controller."""
        remote = self.remote_controller
        return ControllerRequests(self.controller, None if remote is None else remote.forwarding)

    def authorizer_of(self, listener: str) -> Authorizer | None:
        """Return the authorizer of the clients of a listener, or None if they may do everything.

        Without ACLs, only clients of the listener of other brokers may act for the cluster.
        """
        if self.acl_authorizer is not None:
            return self.acl_authorizer
        return None if listener == self.settings.inter_broker_listener else DenyClusterAction()

    def kraft_version(self) -> int:
        """Return the level of `kraft.version`."""
        return self.quorum.kraft_version

    def verifies_transactions(self) -> bool:
        """Whether `transaction.partition.verification.enable` is currently true."""
        return self.current_config().transaction_partition_verification_enable


async def open_parts(settings: Settings, world: World, bound: BoundListeners, hosts: HostNames) -> Parts:
    """Open the log directories, format empty ones, and build all parts.

    Raise StartError if the broker cannot start. No directory stays locked in that case.
    """
    config, live, turns = settings.config, LiveConfig(settings.config), Turns(world.ticks_ns)
    descriptors = Descriptors(world.open_files_max, len(world.disks), config.pykbroker_client_descriptors_min)
    descriptors.check_start()
    configs = TopicConfigs(live)
    world, opened, identity, quorum = await open_node(settings, world, bound, configs, descriptors, turns)
    controller, images = quorum.controller, quorum.member.images
    image, committed = partial(getattr, images, "current"), partial(getattr, images, "committed")
    current_config = CurrentConfig(live, image, identity.node_id, world.off_loop)
    endpoints = InterBrokerEndpoints(image, settings.inter_broker_listener, bound.secured.to_brokers)
    links = leader_links(config, world, endpoints)
    places = Places(opened, identity.directory_ids)
    states = DirectoryStates(places, current_config, lambda: image().features.level(METADATA_FEATURE))
    places.is_cordoned = states.is_cordoned
    replicas = new_replicas(config, places, configs, descriptors, links)
    keeper = IsrKeeper(replicas.broker)
    lifecycle = new_lifecycle(config, quorum, identity, states)
    broker_epoch = quorum.member.broker_epoch = partial(getattr, lifecycle, "broker_epoch")
    ongoing = OngoingWork()
    producer_ids = ProducerIds(controller, identity.node_id, broker_epoch, ongoing)
    groups = groups_runtime(config, world, image, turns)
    return Parts(
        settings=settings,
        world=world,
        listeners=ClientListeners(world.net, world.off_loop, settings, bound),
        logins=ListenerLogins(committed, identity.cluster_id, world.rng.getrandbits, world.off_loop),
        controller_bound=bound.controllers,
        hosts=hosts,
        identity=identity,
        descriptors=descriptors,
        turns=turns,
        acl_authorizer=(authorizer := acl_authorizer(config, quorum, world.ticks_ns)),
        decision_rates=None if authorizer is None else decision_rates(authorizer, world.ticks_ns),
        directories=opened,
        refused_paths=refused_paths(settings, opened),
        node_quorum=quorum,
        caught_up=trio.Event(),
        image=image,
        live_config=live,
        current_config=current_config,
        lifecycle=lifecycle,
        ongoing=ongoing,
        producer_ids=producer_ids,
        automatic_topics=AutomaticTopics(controller, images, world.ticks_ns, ongoing),
        replicas=replicas,
        isr_keeper=keeper,
        repairs=Repairs(replicas),
        upkeep=Upkeep(replicas, opened, config, world.wall_ms, partial(keeper.run, replicas.all_online)),
        cleaner=log_cleaner(replicas, world, current_config),
        scrubber=Scrubber(replicas.all_online, ScrubSettings.of(config)),
        groups=groups,
        transactions=transaction_coordinator(config, world, image, endpoints, producer_ids, groups, replicas, turns),
        fetch_sessions=FetchSessionCache(config.max_incremental_fetch_session_cache_slots, world.rng),
        endpoints=BrokerEndpoints(identity.node_id, image, all_advertised(settings, bound)),
        peers_of_metrics=peers(config, world, endpoints, LOG_ENDS_S_MAX),
    )


async def open_node(
    settings: Settings,
    world: World,
    bound: BoundListeners,
    configs: TopicConfigs,
    descriptors: Descriptors,
    turns: Turns,
) -> tuple[World, tuple[LogDirectory, ...], BrokerIdentity, NodeQuorum]:
    """Open the log directories, and the metadata log in the first one. Raise StartError.

    The returned world has only the disks that could be opened.
    """
    if settings.has_sasl:
        from pykbroker.core.security.sasl.settings import sasl_listeners

        sasl_listeners(settings.config.texts, [*settings.listeners, *settings.controller_listeners])
    directories: list[LogDirectory] = []
    try:
        world = await open_directories(world, directories, descriptors)
        identity = await open_identity(settings, world, bound)
        quorum = await open_quorum(settings, world, bound, identity, configs, descriptors, turns)
    except BaseException as failure:
        with trio.CancelScope(shield=True):
            await leave_untouched(directories)
        if isinstance(failure, OSError):
            raise StartError(
                f"a log directory cannot be read or written: {failure}. Repair the disk or correct log.dirs"
            ) from failure
        raise
    return world, tuple(directories), identity, quorum


def acl_authorizer(config: BrokerConfig, quorum: NodeQuorum, ticks: Callable[[], int]) -> AclAuthorizer | None:
    """Return the authorizer of ACLs, or None if the configs name none. `ticks` returns ns of a monotonic clock.

    If the controller is in this process it has the controller's ACLs, since other nodes are served before this broker
    applies its first image.
    """
    settings = config.authorizer
    if settings is None:
        return None
    from pykbroker.broker.audit_log import AuditLog
    from pykbroker.core.security.acl.authorizer import AclAuthorizer

    authorizer = AclAuthorizer(settings.super_users, AuditLog(ticks), allows_without_acls=settings.allows_without_acls)
    if quorum.local is not None:
        authorizer.update(quorum.local.images.committed.acls.by_id)
    return authorizer


def decision_rates(authorizer: AclAuthorizer, ticks: Callable[[], int]) -> DecisionRates:
    """Return the rates of the authorizer's decisions. Their code is imported for a broker with ACLs only."""
    from pykbroker.broker.decision_rates import DecisionRates

    return DecisionRates(authorizer, ticks)


def new_lifecycle(
    config: BrokerConfig, quorum: NodeQuorum, identity: BrokerIdentity, states: DirectoryStates
) -> Lifecycle:
    """Return the registration of this broker with the controller, and its heartbeats."""
    heartbeat_s = config.broker_heartbeat_interval_ms / 1000
    registration_s_max = config.initial_broker_registration_timeout_ms / 1000
    controller, images = quorum.controller, quorum.member.images
    return Lifecycle(controller, images, identity, quorum.incarnation_id, heartbeat_s, states, registration_s_max)


def leader_links(config: BrokerConfig, world: World, endpoints: InterBrokerEndpoints) -> BrokerLeaderLinks:
    """Return the source of connections to the leaders that this broker follows."""
    opened = LinkSettings.of(config, endpoints.security, config.replica_socket_receive_buffer_bytes)
    response_s_max = config.replica_socket_timeout_ms / 1000
    return BrokerLeaderLinks(config.node_id, world.net, world.rng.uniform, endpoints, opened, response_s_max)


def log_cleaner(replicas: Replicas, world: World, current_config: CurrentConfig) -> Cleaner:
    """Return the cleaner of all open logs."""
    return Cleaner(replicas.all_online, world.workers, lambda: CleanerSettings.of(current_config()), world.wall_ms)


def new_replicas(
    config: BrokerConfig, places: Places, configs: TopicConfigs, descriptors: Descriptors, links: BrokerLeaderLinks
) -> Replicas:
    """Return the partitions of this broker, without any yet, and with the fetchers of those that it will follow."""
    broker = OwnBroker(config.node_id, config.replica_lag_time_max_ms)
    quotas = ReplicationQuotas(config.node_id, config)
    fetchers = Fetchers(broker, links, ReplicaFetchSettings.of(config), quotas.follower)
    return Replicas(broker, places, configs, descriptors, fetchers, quotas)


def groups_runtime(config: BrokerConfig, world: World, image: Callable[[], MetadataImage], turns: Turns) -> Runtime:
    """Return the group coordinator, which leads no partition yet."""
    settings = GroupSettings.of(config)

    def new_machine() -> GroupMachine:
        return GroupMachine(
            settings, world.rng, lambda: image().topics, lambda group: image().configs.of(ConfigResource.GROUP, group)
        )

    framing = Batches(GROUP_RECORDS, 0, read_run=read_run)
    commit_s_max = config.offsets_commit_timeout_ms / 1000
    return Runtime(GROUP_METADATA_TOPIC, new_machine, framing, world.wall_ms, world.off_loop, turns, commit_s_max)


def transaction_coordinator(
    config: BrokerConfig,
    world: World,
    image: Callable[[], MetadataImage],
    endpoints: InterBrokerEndpoints,
    producer_ids: ProducerIds,
    groups: Runtime,
    replicas: Replicas,
    turns: Turns,
) -> TransactionCoordinator:
    """Return the transaction coordinator, which leads no partition yet."""
    request_s_max = config.request_timeout_ms / 1000
    return TransactionCoordinator(
        config,
        image,
        producer_ids,
        groups,
        lambda topic, index: OwnLog(replicas.partition(TopicPartition(topic, index))),
        world.wall_ms,
        world.off_loop,
        turns,
        ClusterLeaders(config.node_id, image, *(peers(config, world, endpoints, request_s_max) for _ in range(2))),
    )


def peers(config: BrokerConfig, world: World, endpoints: InterBrokerEndpoints, request_s_max: float) -> Peers:
    """Return connections to other brokers, which must respond within `request_s_max` seconds."""

    def address_of(node_id: int) -> Address | None:
        endpoint = endpoints.live(node_id)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    opened = LinkSettings.of(config, endpoints.security, config.socket_receive_buffer_bytes)
    return Peers(world.net, address_of, f"broker-{config.node_id}", world.rng.uniform, request_s_max, opened)


def refused_paths(settings: Settings, opened: tuple[LogDirectory, ...]) -> tuple[str, ...]:
    """Return the entries of log.dirs that could not be opened."""
    paths = {directory.path for directory in opened}
    return tuple(path for path in settings.data_dirs if path not in paths)
