"""Several brokers' replicas in one process, joined by links in memory, with a controller that is a few lines.

Each broker has its own simulated disk, the real `Replicas`, fetchers and sender of ISR changes, and the real handlers
of Fetch and ListOffsets. Requests and responses are encoded and decoded as on a connection. The controller commits at
once and informs every broker that runs. Tests use trio's virtual clock.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import trio
import trio.testing
from msgspec.structs import replace

from pykbroker.apis.records.fetch.fetch import Fetch
from pykbroker.apis.records.fetch.locate import ReadRights
from pykbroker.apis.records.list_offsets import ListOffsets
from pykbroker.client.errors import Disconnected
from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.config.live_config import LiveConfig
from pykbroker.core.fetch.session_cache import FetchSessionCache
from pykbroker.core.ids import LOST
from pykbroker.core.metadata.context import METADATA_FEATURE
from pykbroker.core.metadata.image import (
    BrokerImage,
    ClusterImage,
    ConfigsImage,
    Delta,
    FeaturesImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
    TopicsImage,
)
from pykbroker.core.metadata.record import DIRECTORIES_LEVEL
from pykbroker.core.topic_partition import TopicIdPartition, TopicPartition
from pykbroker.replica.care.repairs import Repairs
from pykbroker.replica.care.unwritable_replicas import UnwritableReplicas
from pykbroker.replica.following.fetch_settings import ReplicaFetchSettings
from pykbroker.replica.following.fetchers import Fetchers
from pykbroker.replica.leading.follower_fetches import FollowerFetches
from pykbroker.replica.leading.isr_changes import IsrChanges
from pykbroker.replica.leading.isr_keeper import IsrKeeper
from pykbroker.replica.partition.own_broker import OwnBroker
from pykbroker.replica.partition.partition import Partition
from pykbroker.replica.placing.places import Places
from pykbroker.replica.quotas import ReplicationQuotas
from pykbroker.replica.replicas import Replicas
from pykbroker.replica.topic_configs import TopicConfigs
from pykbroker.server.endpoints import BrokerEndpoints
from pykbroker.server.handler import Later
from pykbroker.server.leader_hints import LeaderHints
from pykbroker.sim.disk import SimDisk
from pykbroker.sim.volume import Volume
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.world.disk import FileSlice
from tests.unit.apis.calling import context
from tests.unit.replica.host import NOW_MS, inline
from wire.declare import Request
from wire.error_codes import ErrorCode
from wire.frame import decode_request, decode_response, encode_request, encode_response
from wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.messages.fetch import FetchRequest, FetchResponse
from wire.messages.list_offsets import ListOffsetsRequest
from wire.records.batch import batches
from wire.records.builder import BatchBuilder
from wire.records.record import records
from wire.sentinels import NO_LEADER

TOPIC_ID = bytes(range(16))
VERSIONS = {FetchRequest: 17, ListOffsetsRequest: 10}
FRAME_LENGTH_BYTES = 4
LAG_MS_MAX = 10_000
SILENT_S = 2.0
"""The time after which a request that is cut off fails."""


def batch(value: bytes) -> bytes:
    builder = BatchBuilder()
    builder.append(None, value, timestamp=NOW_MS)
    return builder.build()


async def pause(seconds: float) -> None:
    """Let virtual time pass."""
    await trio.sleep_until(trio.current_time() + seconds)


async def responded(answer: Any) -> Any:
    """Return the response of a handler's answer, with the bytes of its records."""
    while isinstance(answer, Later):
        work: Any = answer.work
        if not isinstance(work, Generator):
            answer = await work
            continue
        try:
            while True:
                next(work)
                await trio.lowlevel.checkpoint()
        except StopIteration as finished:
            answer = finished.value
    if isinstance(answer, FetchResponse):
        for topic in answer.responses:
            for data in topic.partitions:
                if isinstance(data.records, FileSlice):
                    data.records = await data.records.file.read(data.records.offset, data.records.size)
    return answer


class Link:
    """A connection from one broker to another, in memory. A request that is cut off times out."""

    def __init__(self, cluster: Cluster, source: int, target: int) -> None:
        self._cluster, self._source, self._target = cluster, source, target
        self._closed = trio.Event()

    async def ask(self, request: Request[Any], version: int | None = None) -> Any:
        cluster = self._cluster
        await pause(cluster.latency_s)
        if (self._source, self._target) in cluster.cut:
            await self._time_out()
        target = cluster.running.get(self._target)
        if target is None:
            raise Disconnected(f"broker {self._target} is down")
        if isinstance(request, ApiVersionsRequest):
            return ApiVersionsResponse()
        cluster.requests.append((self._source, self._target, request))
        number = VERSIONS[type(request)]
        _, received = decode_request(encode_request(request, number, 1, None)[FRAME_LENGTH_BYTES:])
        response = await responded(target.handlers[type(request)](context(number), received))
        await pause(cluster.latency_s)
        if (self._target, self._source) in cluster.cut:
            await self._time_out()
        if cluster.running.get(self._target) is not target:
            raise Disconnected(f"broker {self._target} has restarted")
        frame = encode_response(response, number, 1)[FRAME_LENGTH_BYTES:]
        return decode_response(type(response), number, frame)[1]

    async def _time_out(self) -> None:
        await pause(SILENT_S)
        raise Disconnected(f"broker {self._target} did not respond in time")

    def close(self) -> None:
        self._closed.set()


class Links:
    def __init__(self, cluster: Cluster, source: int) -> None:
        self._cluster, self._source = cluster, source

    def link(self, broker_id: int) -> Link:
        return Link(self._cluster, self._source, broker_id)


class Broker:
    """One broker's replicas. Its disk survives a restart."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self.cluster, self.id = cluster, node_id
        self.volume = Volume()
        self.scope = trio.CancelScope()
        self.configs: dict[str, str] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self.volume.locks.clear()
        self.scope = trio.CancelScope()
        self.disk = SimDisk(self.volume, f"disk{self.id}")
        self.directory = await LogDirectory.open(self.disk, off_loop=inline, wall_ms=lambda: NOW_MS, jitter=lambda: 0.5)
        config = BrokerConfig.from_mapping(self.configs)
        self.own = OwnBroker(self.id, LAG_MS_MAX)
        self.keeper = IsrKeeper(self.own)
        self.quotas = ReplicationQuotas(self.id, config)
        self.fetchers = Fetchers(self.own, Links(self.cluster, self.id), ReplicaFetchSettings(), self.quotas.follower)
        places = Places((self.directory,), (bytes([self.id]) * 16,))
        topic_configs = TopicConfigs(LiveConfig(config))
        self.replicas = Replicas(self.own, places, topic_configs, fetchers=self.fetchers, quotas=self.quotas)
        self.repairs = Repairs(self.replicas)
        self.unwritable = UnwritableReplicas(self.replicas)
        self.sessions = FetchSessionCache(100, Random(self.id))
        endpoints = BrokerEndpoints(self.id, lambda: self.cluster.image)
        fetch = Fetch(
            ReadRights(self.replicas),
            self.sessions,
            lambda: int(trio.current_time() * 1e9),
            1 << 20,
            LeaderHints(lambda: self.cluster.image, endpoints),
            FollowerFetches(self.replicas, self.sessions, self.keeper),
        )
        self.handlers: dict[type, Any] = {FetchRequest: fetch, ListOffsetsRequest: ListOffsets(self.replicas)}
        self.cluster.running[self.id] = self
        with self.scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.fetchers.run)
                nursery.start_soon(IsrChanges(self.keeper, self.cluster).run)
                nursery.start_soon(self.repairs.run, lambda placed: self.cluster.report(self.id, placed))
                nursery.start_soon(self.unwritable.run, lambda placed: self.cluster.report(self.id, placed))
                nursery.start_soon(self.keeper.run, self.replicas.all_online)
                await nursery.start(self._apply)
                task_status.started()
        self.cluster.running.pop(self.id, None)

    async def _apply(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Apply the metadata, for the first time before the start has ended."""
        applied, starts = MetadataImage(), True
        while True:
            changed, image = self.cluster.changed, self.cluster.image
            if image is not applied and self.id not in self.cluster.uninformed:
                delta = Delta.since_nothing(image)
                await self.replicas.apply(replace(delta, previous=applied))
                self.cluster.report(self.id, await self.replicas.misplaced(delta))
                applied = image
                continue
            if starts:
                task_status.started()
                starts = False
            await changed.wait()

    @property
    def has_partition(self) -> bool:
        return any(topic.partitions for topic in self.replicas.topics())

    @property
    def partition(self) -> Partition:
        return self.replicas.partition(TopicPartition("t", 0))

    async def produce(self, value: bytes, *, acks_all: bool = True) -> int:
        """Append a record as leader, wait for followers if `acks_all`, and return its offset."""
        partition = self.partition
        appended = partition.append(batch(value), NOW_MS, None, acks_all)
        assert appended is not None
        if acks_all:
            await partition.wait_committed(appended.last_offset + 1)
        return appended.base_offset

    def content(self, index: int = 0) -> bytes:
        """Return all bytes of a partition's log."""
        directory = self.volume.find_directory(f"t-{index}")
        names = sorted(name for name in directory.entries if name.endswith(".log"))
        return b"".join(bytes(directory.entries[name].content) for name in names)

    def values(self, index: int = 0) -> list[bytes]:
        """Return the values of the records of a partition's log."""
        return [bytes(record.value or b"") for one in batches(self.content(index)) for record in records(one, 1 << 20)]


class Cluster:
    """The brokers, and the controller's state. `cut` has the (source, target) pairs that lose their messages.

    With `is_under_kafka` the controller is Kafka's: the report of a lost replica begins no leader epoch, and a replica
    in a lost directory may join the ISR.
    """

    def __init__(
        self, *, partitions: int = 1, replicas: tuple[int, ...] = (1, 2, 3), configs: dict[str, str] | None = None
    ) -> None:
        self.brokers = {each: Broker(self, each) for each in (1, 2, 3)}
        self.running: dict[int, Broker] = {}
        self.uninformed: set[int] = set()
        self.cut: set[tuple[int, int]] = set()
        self.latency_s = 0.001
        self.is_under_kafka = False
        self.requests: list[tuple[int, int, Any]] = []
        self.alterations: list[tuple[int, ...]] = []
        self.reports: list[tuple[int, bytes]] = []
        self.refusals: list[ErrorCode] = []
        self.changed = trio.Event()
        directories = tuple(bytes([each]) * 16 for each in replicas)
        placed = PartitionImage(replicas, replicas, replicas[0], 0, 0, directories)
        topic = TopicImage("t", TOPIC_ID, dict.fromkeys(range(partitions), placed))
        registered = {
            each: BrokerImage(each, bytes(16), epoch=100 * each, fenced=False, directories=(bytes([each]) * 16,))
            for each in self.brokers
        }
        self.image = MetadataImage(
            offset=1,
            cluster=ClusterImage(registered),
            topics=TopicsImage({"t": topic}, {TOPIC_ID: topic}),
            features=FeaturesImage({METADATA_FEATURE: DIRECTORIES_LEVEL}),
            configs=ConfigsImage({(2, "t"): {"min.insync.replicas": "2"} | (configs or {})}),
        )

    @asynccontextmanager
    async def up(self, *node_ids: int) -> AsyncIterator[None]:
        """Run these brokers, all by default."""
        async with trio.open_nursery() as nursery:
            self.nursery = nursery
            for node_id in node_ids or tuple(self.brokers):
                await self.start(node_id)
            yield
            nursery.cancel_scope.cancel()

    async def start(self, node_id: int) -> None:
        await self.nursery.start(self.brokers[node_id].run)

    async def kill(self, node_id: int) -> None:
        """Stop a broker as SIGKILL does: nothing is flushed or written."""
        self.running.pop(node_id).scope.cancel()
        await trio.testing.wait_all_tasks_blocked()

    def placed(self, index: int = 0) -> PartitionImage:
        return self.image.topics.by_name["t"].partitions[index]

    def configure(self, resource: tuple[int, str], configs: dict[str, str]) -> None:
        """Set the dynamic configs of a topic or broker."""
        self.publish(configs=ConfigsImage({**self.image.configs.resources, resource: configs}))

    def commit(self, index: int = 0, **changes: Any) -> None:
        """Change a partition in the metadata. A new leader raises the leader epoch."""
        topic, placed = self.image.topics.by_name["t"], self.placed(index)
        if "leader" in changes:
            changes["leader_epoch"] = placed.leader_epoch + 1
        placed = replace(placed, partition_epoch=placed.partition_epoch + 1, **changes)
        topic = replace(topic, partitions={**topic.partitions, index: placed})
        self.publish(topics=TopicsImage({"t": topic}, {TOPIC_ID: topic}))

    def set_broker(self, node_id: int, **changes: Any) -> None:
        """Change the registration of a broker."""
        brokers = {**self.image.cluster.brokers, node_id: replace(self.image.cluster.brokers[node_id], **changes)}
        self.publish(cluster=ClusterImage(brokers))

    def publish(self, **changes: Any) -> None:
        self.image = replace(self.image, offset=self.image.offset + 1, **changes)
        self.inform()

    def inform(self) -> None:
        changed, self.changed = self.changed, trio.Event()
        changed.set()

    async def ask(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Decide as the controller does, and publish the change."""
        await pause(self.latency_s)
        response = AlterPartitionResponse(topics=[])
        for topic in request.topics:
            answers = [self._alter(request.broker_id, asked) for asked in topic.partitions]
            response.topics.append(AlterPartitionResponseTopicData(topic.topic_id, answers))
        await pause(self.latency_s)
        return response

    def report(self, node_id: int, placed: Mapping[TopicIdPartition, bytes]) -> None:
        """Record the log directories of a broker's replicas. A replica in a lost one leaves the ISR and the leadership.

        Without another member of the ISR the partition has no leader. The replica stays in the ISR then.
        """
        for (_, index), directory in placed.items():
            before = self.placed(index)
            directories = tuple(directory if one == node_id else before.directory(one) for one in before.replicas)
            if directories == before.directories and (directory != LOST or node_id not in before.isr):
                continue
            self.reports.append((node_id, directory))
            changes: dict[str, Any] = {"directories": directories}
            if directory == LOST:
                changes["isr"] = tuple(one for one in before.isr if one != node_id) or before.isr
                if before.leader == node_id:
                    changes["leader"] = next((one for one in changes["isr"] if one != node_id), NO_LEADER)
                elif not self.is_under_kafka and before.leader != NO_LEADER:
                    changes["leader"] = before.leader
            self.commit(index, **changes)

    def _alter(self, broker_id: int, asked: AlterPartitionRequestPartitionData) -> AlterPartitionResponsePartitionData:
        placed, brokers = self.placed(asked.partition_index), self.image.cluster.brokers
        code = ErrorCode.NONE
        if asked.leader_epoch != placed.leader_epoch:
            code = ErrorCode.FENCED_LEADER_EPOCH
        elif asked.partition_epoch != placed.partition_epoch:
            code = ErrorCode.INVALID_UPDATE_VERSION
        elif any(
            not brokers[one.broker_id].active
            or one.broker_epoch not in (-1, brokers[one.broker_id].epoch)
            or (placed.directory(one.broker_id) == LOST and not self.is_under_kafka)
            for one in asked.new_isr_with_epochs
        ):
            code = ErrorCode.INELIGIBLE_REPLICA
        if code is not ErrorCode.NONE:
            self.refusals.append(code)
            return AlterPartitionResponsePartitionData(asked.partition_index, code)
        isr = tuple(one.broker_id for one in asked.new_isr_with_epochs)
        self.alterations.append(isr)
        self.commit(asked.partition_index, isr=isr)
        placed = self.placed(asked.partition_index)
        return AlterPartitionResponsePartitionData(
            asked.partition_index, 0, placed.leader, placed.leader_epoch, list(isr), 0, placed.partition_epoch
        )
