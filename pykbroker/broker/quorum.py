"""The part of this node in the quorum: the controller, or an observer of a controller in another process."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykbroker.broker.address import BoundListeners, endpoints
from pykbroker.client.link_settings import LinkSettings
from pykbroker.client.security import ClientSecurity
from pykbroker.core.descriptors import Descriptors
from pykbroker.core.ids import new_id
from pykbroker.core.metadata.image import Endpoint
from pykbroker.core.metadata.settings import ControllerSettings
from pykbroker.core.settings import Settings
from pykbroker.quorum.active_controller import ActiveController
from pykbroker.quorum.controller import Controller
from pykbroker.quorum.identity import BrokerIdentity, Voter, find_cluster_id, prepare
from pykbroker.quorum.journal import ReplicatedJournal
from pykbroker.quorum.member import QuorumMember
from pykbroker.quorum.metadata_log import open_metadata_log
from pykbroker.quorum.quorum_leader import QuorumLeader
from pykbroker.quorum.rules import LogRules
from pykbroker.quorum.start import start_controller
from pykbroker.replica.topic_configs import TopicConfigs
from pykbroker.storage.files.meta_properties import ignores_case
from pykbroker.world.turns import Turns
from pykbroker.world.world import World
from wire.declare import NIL

if TYPE_CHECKING:
    from pykbroker.quorum.remote_controller import RemoteController


class NodeQuorum(NamedTuple):
    """The metadata log of this node, and the active controller: `local` in this process, or `remote` in another.

    `incarnation_id` is that of this process.
    """

    member: QuorumMember
    local: Controller | None = None
    remote: RemoteController | None = None
    incarnation_id: bytes = NIL

    @property
    def controller(self) -> ActiveController:
        found = self.local or self.remote
        assert found is not None
        return found


def controller_endpoints(settings: Settings, bound: BoundListeners) -> tuple[Endpoint, ...]:
    """Return the endpoints of the controller for other nodes. Without listeners of its own, it has that of the broker.

    Tools read these endpoints in the metadata log.
    """
    return endpoints(settings.listeners_of_controller, bound.controllers or bound.clients)


async def open_identity(settings: Settings, world: World, bound: BoundListeners) -> BrokerIdentity:
    """Return the identity of this node, and format empty log directories.

    A new node that is no controller asks a controller for the id of its cluster, for as long as its registration may
    take. Raise StartError.
    """
    node_id, disks, now_ms, required = settings.config.node_id, world.disks, world.wall_ms(), settings.cluster_id
    cluster_id = await find_cluster_id(disks, node_id) if settings.quorum or required else None
    if required is not None:
        required.check(cluster_id, disks[0].path, "name an empty directory in log.dirs")
    if not settings.quorum:
        voter = Voter(controller_endpoints(settings, bound))
        return await prepare(disks, node_id, world.rng, now_ms, required and required.text, voter)
    if not cluster_id:
        from pykbroker.quorum.observer_start import ask_cluster_id

        s_max = settings.config.initial_broker_registration_timeout_ms / 1000
        cluster_id = await ask_cluster_id(
            world.net, settings.quorum, s_max, bound.secured.to_controllers, required and required.text
        )
        if required is not None:
            required.check(cluster_id, "the controller", "correct controller.quorum.bootstrap.servers")
    return await prepare(disks, node_id, world.rng, now_ms, cluster_id, is_controller=False)


async def open_quorum(
    settings: Settings,
    world: World,
    bound: BoundListeners,
    identity: BrokerIdentity,
    configs: TopicConfigs,
    descriptors: Descriptors,
    turns: Turns,
) -> NodeQuorum:
    """Open the metadata log in the first log directory. Raise StartError."""
    config, disk, rules = settings.config, world.disks[0], LogRules.of(settings.config)
    journal = await open_metadata_log(disk, world.off_loop, rules, is_copy=bool(settings.quorum))
    incarnation_id = new_id(world.rng)
    of_controller = ControllerSettings.of(
        config,
        identity.node_id,
        identity.cluster_id,
        descriptors,
        incarnation_id,
        ignores_case=any(map(ignores_case, world.disks)),
    )
    if not settings.quorum:
        controller = await start_controller(
            journal,
            disk,
            of_controller,
            configs,
            world.rng,
            world.wall_ms,
            world.off_loop,
            rules,
            turns,
            identity.directory_ids[0],
            controller_endpoints(settings, bound),
        )
        return NodeQuorum(controller, local=controller, incarnation_id=incarnation_id)
    return await _open_observer(
        settings, world, bound.secured.to_controllers, identity, journal, of_controller, configs, rules, incarnation_id
    )


async def _open_observer(
    settings: Settings,
    world: World,
    security: ClientSecurity,
    identity: BrokerIdentity,
    journal: ReplicatedJournal,
    of_controller: ControllerSettings,
    configs: TopicConfigs,
    rules: LogRules,
    incarnation_id: bytes,
) -> NodeQuorum:
    # A node with a controller needs none of these modules, which take 0.4 MB.
    from pykbroker.quorum.controller_channel import ControllerChannel
    from pykbroker.quorum.observer_requests import ObserverIds
    from pykbroker.quorum.observer_settings import ObserverSettings
    from pykbroker.quorum.observer_start import start_observer
    from pykbroker.quorum.remote_controller import RemoteController

    config, leader = settings.config, QuorumLeader(settings.quorum)
    ids = ObserverIds(identity.cluster_id, identity.node_id, identity.directory_ids[0])
    observer = await start_observer(
        journal,
        world.disks[0],
        ids,
        of_controller,
        configs,
        world.rng,
        world.rng.uniform,
        world.wall_ms,
        world.off_loop,
        rules,
        leader,
        world.net,
        world.ticks_ns,
        ObserverSettings.of(config, security),
    )
    opened, response_s_max = LinkSettings.of(config, security), config.controller_socket_timeout_ms / 1000

    def channel(kind: str) -> ControllerChannel:
        client_id = f"broker-{identity.node_id}-{kind}"
        return ControllerChannel(world.net, leader, client_id, world.rng.uniform, opened, response_s_max)

    remote = RemoteController(channel, config.broker_heartbeat_interval_ms / 1000, leader)
    return NodeQuorum(observer, remote=remote, incarnation_id=incarnation_id)
