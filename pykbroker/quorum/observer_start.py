"""The start of an observer, from its copy of the metadata log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

import trio

from pykbroker.client.connection import connected
from pykbroker.client.errors import AuthenticationError, Disconnected, HandshakeEnded, UnsupportedVersion
from pykbroker.client.security import ClientSecurity
from pykbroker.core.address import Address
from pykbroker.core.backoff import Uniform
from pykbroker.core.errors import StartError
from pykbroker.core.ids import Randomness
from pykbroker.core.metadata.context import ControllerConfigs
from pykbroker.core.metadata.image import Delta
from pykbroker.core.metadata.machine import ControllerMachine
from pykbroker.core.metadata.settings import ControllerSettings
from pykbroker.quorum.images import Images
from pykbroker.quorum.journal import ReplicatedJournal
from pykbroker.quorum.observer import MetadataObserver
from pykbroker.quorum.observer_log import ObserverLog, recover_copy
from pykbroker.quorum.observer_requests import ObserverIds
from pykbroker.quorum.observer_settings import ObserverSettings
from pykbroker.quorum.quorum_leader import QuorumLeader
from pykbroker.quorum.quorum_state import QuorumState, read_state, require_cluster
from pykbroker.quorum.rules import LogRules
from pykbroker.quorum.snapshots import Snapshots
from pykbroker.quorum.snapshotter import Snapshotter
from pykbroker.world.disk import Disk
from pykbroker.world.net import Net
from pykbroker.world.off_loop import OffLoop
from wire.error_codes import ErrorCode, error_code
from wire.messages.describe_cluster import DescribeClusterRequest

CONTROLLERS = 2
"""The type of the controllers' endpoints in DescribeCluster (KIP-919)."""
ATTEMPT_S_MAX = 5.0
RETRY_S = 0.2
WARNING_AFTER_S = 3.0
"""The time after which a log line says that no controller responds."""
DYNAMIC_STATE = 1
"""The version of `quorum-state` for nodes that are not named as voters in a config."""


logger = logging.getLogger(__name__)


class LacksRightError(Exception):
    """An error of a node whose user may not know the id of the cluster."""


class Failures:
    """Why none of the controllers at these addresses tells the id of its cluster."""

    def __init__(self, servers: Sequence[Address], s_max: float) -> None:
        self._servers = ", ".join(map(str, servers))
        self._silent = dict.fromkeys(servers, f"no answer within {s_max:g} s")
        self._refusals: dict[Address, str] = {}

    def silent(self, address: Address, reason: str) -> None:
        """Note that there is no controller at an address, or none that can be reached."""
        self._refusals.pop(address, None)
        self._silent[address] = reason

    def refused(self, address: Address, reason: str) -> None:
        """Note that a controller does not accept this node. The reason says what to do."""
        self._silent.pop(address, None)
        self._refusals[address] = reason

    def advice(self) -> str:
        """Return what to do, unless a reason says it."""
        start = ": start the controller, or correct controller.quorum.bootstrap.servers"
        return "" if self._refusals else start

    def __str__(self) -> str:
        reasons = "; ".join(dict.fromkeys([*self._silent.values(), *self._refusals.values()]))
        if self._refusals:
            return f"no controller at {self._servers} accepts this node: {reasons}"
        return f"no controller responds at {self._servers} ({reasons})"


async def ask_cluster_id(
    net: Net, servers: Sequence[Address], s_max: float, security: ClientSecurity, required: str | None = None
) -> str:
    """Return the id of the cluster of these controllers. Raise StartError if none of them responds within `s_max`.

    It is the `required` one if they do not tell it to this node.

    One log line says so before, since a start that waits looks like one that hangs.
    """
    failures = Failures(servers, s_max)
    warns_at, ends_at = trio.current_time() + WARNING_AFTER_S, trio.current_time() + s_max
    with trio.move_on_at(ends_at):
        while True:
            for address in servers:
                try:
                    with trio.fail_after(ATTEMPT_S_MAX):
                        return await _cluster_id(net, address, security, required)
                except trio.TooSlowError:
                    failures.silent(address, f"no answer within {ATTEMPT_S_MAX:g} s")
                except AuthenticationError as error:
                    failures.refused(address, security.reason(error))
                    security.on_refused(error)
                except (HandshakeEnded, LacksRightError) as error:
                    failures.refused(address, str(error))
                except (OSError, Disconnected, UnsupportedVersion, StartError) as error:
                    failures.silent(address, str(error))
                if trio.current_time() >= warns_at:
                    logger.warning("%s: trying for another %.0f s", failures, ends_at - trio.current_time())
                    warns_at = ends_at
            await trio.sleep(RETRY_S)
    raise StartError(f"{failures}{failures.advice()}")


async def _cluster_id(net: Net, address: Address, security: ClientSecurity, required: str | None) -> str:
    """Return the cluster id that one controller has. Raise StartError or LacksRightError if its answer is an error."""
    async with connected(net, *address, "pykbroker-start", security) as connection:
        response = await connection.ask(DescribeClusterRequest(endpoint_type=CONTROLLERS))
    if response.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE:
        raise StartError(f"{address} is a listener of a broker, not of a controller")
    if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        if required is not None:
            return required
        raise LacksRightError(
            f"{address} does not tell the id of its cluster to the user of this node: allow it ALTER on the cluster,"
            " or name the id by --cluster-id"
        )
    if response.error_code or not response.cluster_id:
        raise StartError(f"{address} answers {error_code(response.error_code).name}")
    return response.cluster_id


async def start_observer(
    journal: ReplicatedJournal,
    disk: Disk,
    ids: ObserverIds,
    settings: ControllerSettings,
    configs: ControllerConfigs,
    randomness: Randomness,
    uniform: Uniform,
    wall_ms: Callable[[], int],
    off_loop: OffLoop,
    rules: LogRules,
    leader: QuorumLeader,
    net: Net,
    ticks: Callable[[], int],
    of_observer: ObserverSettings,
) -> MetadataObserver:
    """Return the observer of a controller in another process. It fetches once `run` runs.

    Raise StartError if the copy of the log belongs to another cluster.
    """
    snapshots = Snapshots(disk, off_loop)
    state = await read_state(disk) or QuorumState(version=DYNAMIC_STATE)
    require_cluster(state, ids.cluster_id, disk)
    leader.epoch = max(leader.epoch, state.leader_epoch)
    new_machine = partial(ControllerMachine, settings, configs, randomness)
    found = await recover_copy(journal, snapshots, new_machine)
    snapshots.remove_parts()
    log = ObserverLog(journal, disk, snapshots, state, found, new_machine)
    images = Images(Delta.since_nothing(log.image))
    snapshotter = Snapshotter(log, images, snapshots, rules, off_loop, wall_ms, found.quorum.values())
    return MetadataObserver(ids, log, images, leader, net, snapshotter, ticks, uniform, of_observer)
