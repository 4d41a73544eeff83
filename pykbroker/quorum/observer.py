"""The observer: it keeps a copy of the metadata log of a controller in another process (KIP-595, KIP-630)."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

import trio

from pykbroker.client.backoff import Backoff
from pykbroker.client.connection import BrokerConnection
from pykbroker.client.errors import Disconnected, UnsupportedVersion
from pykbroker.client.reconnecting import ReconnectingConnection
from pykbroker.core.address import Address
from pykbroker.core.backoff import Uniform
from pykbroker.core.errors import ApiError, StopError
from pykbroker.core.log.epochs import OffsetAndEpoch
from pykbroker.core.metadata.replay import DamagedMetadata
from pykbroker.core.security.authorizer import LACKS_CLUSTER_ACTION
from pykbroker.quorum.applied_offsets import observer_client_id
from pykbroker.quorum.images import Images
from pykbroker.quorum.observer_log import ObserverLog
from pykbroker.quorum.observer_requests import ObserverIds, fetch_request, fetched_partition, snapshot_request
from pykbroker.quorum.observer_settings import ObserverSettings
from pykbroker.quorum.quorum_leader import QuorumLeader
from pykbroker.quorum.snapshot_file import snapshot_name
from pykbroker.quorum.snapshotter import Snapshotter
from pykbroker.quorum.statistics import ControllerStatistics
from pykbroker.world.disk import Buffer
from pykbroker.world.net import Net
from pykbroker.world.rate_limited_warning import RateLimitedWarning
from wire.error_codes import ErrorCode, error_code
from wire.errors import DecodeError
from wire.messages.fetch import FetchResponse, PartitionData
from wire.sentinels import NO_LEADER

RECONNECT_MS, RECONNECT_MS_MAX = 50, 100
"""The pauses between attempts to connect. Kafka's grow to 500 ms, which a controller that starts again would wait."""
MS_PER_S = 1000
APPLY_S_MAX = 0.5
"""The time that the next fetch waits for this broker to apply what it has fetched."""

logger = logging.getLogger(__name__)


def not_registered() -> int:
    """Return the broker epoch of a broker that is not registered."""
    return -1


class LeaderLost(Exception):
    """The end of a connection to a controller: another one must be asked."""


class MetadataObserver:
    """The copy of the metadata log, and its images for one subscriber. It matches `member.QuorumMember`.

    The fetches name as high watermark what this broker has applied, once it `applies` images. The controller then waits
    for this broker before it responds to a change.
    """

    def __init__(
        self,
        ids: ObserverIds,
        log: ObserverLog,
        images: Images,
        leader: QuorumLeader,
        net: Net,
        snapshotter: Snapshotter,
        ticks: Callable[[], int],
        uniform: Uniform,
        settings: ObserverSettings,
    ) -> None:
        self._ids, self._log, self.images, self._leader, self._net = ids, log, images, leader, net
        self.snapshotter, self._uniform, self._settings = snapshotter, uniform, settings
        self._request_s_max, self._retry_s = settings.request_ms_max / MS_PER_S, settings.retry_ms / MS_PER_S
        self.applies = False
        self.broker_epoch: Callable[[], int] = not_registered
        self._asked_at = math.inf
        """The time of the last request whose metadata is applied, or of the last attempt that failed."""
        self._unreachable = RateLimitedWarning(logger, ticks)
        self._unwritable = RateLimitedWarning(logger, ticks)

    @property
    def epoch(self) -> int:
        """Return the newest known epoch of the quorum."""
        return self._leader.epoch

    @property
    def kraft_version(self) -> int:
        """Return the level of `kraft.version`."""
        return self._log.found.kraft_version

    def was_silent(self, seconds: float) -> bool:
        """Whether no newer metadata was asked for in so many seconds.

        While the controller does not respond, every attempt counts.
        """
        return trio.current_time() - self._asked_at > seconds

    def statistics(self) -> ControllerStatistics:
        """Return the current statistics of the metadata. No request waits here."""
        return ControllerStatistics.of(self.epoch, self.images.current, 0)

    async def run(self) -> None:
        """Fetch and apply the log until cancelled. Raise StopError if the copy contradicts the leader's log."""
        address = self._leader.candidate()
        link = self._link(address)
        while True:
            try:
                await self._follow(await link.connection(), address)
            except (OSError, Disconnected, LeaderLost, UnsupportedVersion) as failure:
                self._leader.lost(address)
                self._leader.note_failure(address, failure)
                self._unreachable.warn("no metadata comes from the controller at %s: %s", address, failure)
            except (ApiError, DecodeError) as damage:
                logger.warning("the controller at %s sent damaged metadata; fetching again: %s", address, damage)
            except DamagedMetadata as damage:
                raise StopError(
                    f"{self._log.directory}: the copy of the metadata log is damaged: {damage}. Stop the broker, remove"
                    " the directory __cluster_metadata-0, and start it again: it fetches the metadata anew"
                ) from damage
            finally:
                link.close()
            self._asked_at = trio.current_time()
            await trio.sleep(self._retry_s)
            address = link.address = self._leader.candidate()

    def _link(self, address: Address) -> ReconnectingConnection:
        """Return the connection to the controllers, one after the other, of which the first has this address."""
        return self._settings.links.connection(
            self._net,
            address,
            observer_client_id(self._ids.node_id),
            Backoff(self._uniform, RECONNECT_MS, RECONNECT_MS_MAX),
            self._uniform,
            answer_s_max=self._request_s_max,
        )

    async def close(self) -> None:
        """Close the log. `run` must have ended."""
        await self._log.close()

    async def _follow(self, connection: BrokerConnection, address: Address) -> None:
        """Fetch from one controller. Raise LeaderLost once it is not the leader."""
        while True:
            high_watermark = (self.images.current if self.applies else self.images.committed).offset + 1
            request = fetch_request(
                self._ids,
                self._settings,
                self.broker_epoch(),
                self._leader.epoch,
                self._log.log_end_offset,
                self._log.last_epoch,
                high_watermark,
            )
            asked_at = trio.current_time()
            response = await connection.ask(request, s_max=self._request_s_max)
            data = fetched_partition(response)
            self._check_cluster(response)
            await self._note_leader(response, data, address)
            await self._take(connection, data)
            if not self.applies or self.images.current.offset >= self.images.committed.offset:
                self._asked_at = asked_at

    def _check_cluster(self, response: FetchResponse) -> None:
        if response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            raise StopError(
                f"the log directories belong to cluster {self._ids.cluster_id}, and the controller to another one:"
                " correct controller.quorum.bootstrap.servers, or name other directories in log.dirs"
            )
        if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise LeaderLost(LACKS_CLUSTER_ACTION)
        if response.error_code:
            raise LeaderLost(error_code(response.error_code).name)

    async def _note_leader(self, response: FetchResponse, data: PartitionData, address: Address) -> None:
        """Note the leader that a response names. Raise LeaderLost unless it is the node that responded."""
        leader_id, epoch = data.current_leader.leader_id, data.current_leader.leader_epoch
        if data.error_code == ErrorCode.NONE:
            self._leader.found(leader_id, epoch, address)
        elif leader_id != NO_LEADER and epoch >= self._leader.epoch:
            named = [one for one in response.node_endpoints if one.node_id == leader_id]
            if data.error_code == ErrorCode.FENCED_LEADER_EPOCH and not named:
                self._leader.found(leader_id, epoch, address)
            for endpoint in named[:1]:
                self._leader.found(leader_id, epoch, Address(endpoint.host, endpoint.port))
        if leader_id != NO_LEADER:
            await self._log.note_leader(leader_id, self._leader.epoch)
        if data.error_code != ErrorCode.NONE and self._leader.address != address:
            self._leader_moved(data)

    def _leader_moved(self, data: PartitionData) -> None:
        raise LeaderLost(error_code(data.error_code).name)

    async def _take(self, connection: BrokerConnection, data: PartitionData) -> None:
        """Store the records of a response and replay those that are committed."""
        if data.error_code != ErrorCode.NONE:
            # After FENCED_LEADER_EPOCH, the next fetch has the newer epoch.
            await trio.sleep(self._retry_s if data.error_code != ErrorCode.FENCED_LEADER_EPOCH else 0)
        elif data.snapshot_id.end_offset >= 0:
            await self._fetch_snapshot(connection, OffsetAndEpoch(data.snapshot_id.end_offset, data.snapshot_id.epoch))
        elif data.diverging_epoch.end_offset >= 0:
            await self._log.truncate(data.diverging_epoch)
        elif data.records and not self._store(data.records):
            await trio.sleep(self._retry_s)
        else:
            delta = await self._log.replay(data.high_watermark)
            if delta is not None:
                self.images.publish(delta)
                self.snapshotter.committed()
            if self.applies:
                # The next fetch names what this broker has applied, and the controller's clients wait for that.
                with trio.move_on_after(APPLY_S_MAX):
                    await self.images.wait_for(self.images.committed.offset)

    def _store(self, records: Buffer) -> bool:
        """Append fetched records. Return whether the disk took them.

        A full disk is no failure of the controller, whose address the heartbeats of this broker need.
        """
        try:
            self._log.append(records)
        except OSError as refusal:
            self._unwritable.warn("%s takes no metadata, which is fetched again: %s", self._log.directory, refusal)
            return False
        return True

    async def _fetch_snapshot(self, connection: BrokerConnection, snapshot: OffsetAndEpoch) -> None:
        """Fetch a snapshot in parts, and continue from it."""
        name = snapshot_name(snapshot)
        logger.info("fetching the snapshot %s of the metadata log", name)
        part, bytes_max = self._log.snapshots.begin(snapshot), self._settings.snapshot_bytes_max
        try:
            # The first response tells the size.
            position, size = 0, 1
            while position < size:
                request = snapshot_request(self._ids, self._leader.epoch, snapshot, position, bytes_max)
                response = await connection.ask(request, s_max=self._request_s_max)
                found = response.topics[0].partitions[0] if response.topics else None
                if response.error_code or found is None or found.error_code or not found.unaligned_records:
                    code = response.error_code or (found.error_code if found is not None else 0)
                    raise LeaderLost(f"the snapshot {name} cannot be fetched: {error_code(code).name}")
                part.append(found.unaligned_records)
                size, position = found.size, position + len(found.unaligned_records)
            await part.complete()
        finally:
            part.close()
        self.images.publish(await self._log.take_snapshot(snapshot))
