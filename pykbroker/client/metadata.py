"""The cache of a cluster's metadata, and the task that refreshes it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf

import msgspec
import trio

from pykbroker.client.admin.admin import error_name
from pykbroker.client.backoff import Backoff
from pykbroker.client.cluster import Cluster, ClusterBroker, LeaderHint
from pykbroker.client.errors import AuthenticationError, Disconnected, UnsupportedVersion
from pykbroker.client.nodes import Nodes
from pykbroker.client.refresh_schedule import RefreshSchedule
from pykbroker.client.topic_interest import TopicInterest
from pykbroker.core.topic_partition import TopicPartition
from wire.api import ApiKey
from wire.error_codes import ErrorCode
from wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

TOPIC_ID_VERSION_MIN = 12
"""The first version of Metadata that can request a topic by id."""
logger = logging.getLogger(__name__)


class MetadataSettings(msgspec.Struct, frozen=True):
    """The settings of a client's metadata, with Kafka's defaults. Each comment names the Kafka config."""

    bootstrap: tuple[tuple[str, int], ...]
    """bootstrap.servers, as hosts and ports"""
    age_ms_max: float = 300_000
    """metadata.max.age.ms"""
    idle_ms_max: float = 300_000
    """metadata.max.idle.ms of a producer. A consumer replaces its topics, which never become idle."""
    retry_backoff_ms: float = 100
    """retry.backoff.ms"""
    retry_backoff_ms_max: float = 1000
    """retry.backoff.max.ms"""
    allow_auto_create: bool = True
    """allow.auto.create.topics of a consumer. A producer always allows it."""
    rebootstraps: bool = True
    """Whether metadata.recovery.strategy is `rebootstrap` (KIP-899)."""
    rebootstrap_trigger_ms: float = 300_000
    """metadata.recovery.rebootstrap.trigger.ms (KIP-1102)"""


class ClusterMetadata:
    """A client's metadata. `run` must be running, or nothing is refreshed.

    `cluster` is the current view. `version` increases with each refresh. `nodes` gets the addresses of the brokers.
    """

    def __init__(self, nodes: Nodes, uniform: Callable[[float, float], float], settings: MetadataSettings) -> None:
        self._nodes, self._settings = nodes, settings
        attempts, equivalents = (
            Backoff(uniform, settings.retry_backoff_ms, settings.retry_backoff_ms_max) for _ in range(2)
        )
        self._schedule = RefreshSchedule(attempts, equivalents, settings.age_ms_max / 1000)
        self._interest = TopicInterest(settings.idle_ms_max / 1000)
        self.cluster = Cluster.bootstrap(settings.bootstrap)
        self.version = 0
        self._requested, self._updated = trio.Event(), trio.Event()
        self._refusal: AuthenticationError | None = None
        """The reason why the last connection attempt was refused, or None after a response."""
        self._attempts_began_at: float | None = None
        """The time of the first attempt since the last success, or None without one."""
        self._last_failure = ""
        """Why the bootstrap broker that was asked last has sent no metadata."""
        self._reported_errors: dict[str, str] = {}
        """The errors of topics that were logged last."""
        self._on_update: list[Callable[[Cluster, Cluster], None]] = []
        nodes.set_brokers(self.cluster.brokers)
        nodes.call_when_lost(self._node_lost)
        nodes.call_when_refused(self._refused)

    @property
    def connection_failure(self) -> str:
        """Return why no broker has answered so far, or an empty text."""
        return self._last_failure if self.cluster.is_bootstrap else ""

    # ---- topics of interest

    def use(self, topic: str) -> None:
        """Use a topic until it is idle for `metadata.max.idle.ms`. The metadata of a new topic is requested at once."""
        if self._interest.use(topic, trio.current_time()):
            self._request_new_topics()

    def use_only(self, topics: Iterable[str]) -> None:
        """Use exactly these topics, which never become idle. The metadata of new topics is requested at once."""
        if self._interest.replace(topics):
            self._request_new_topics()

    def use_matching(self, matches: Callable[[str, bool], bool] | None) -> None:
        """Also use all topics of the cluster for which `matches` returns True, or stop if it is None.

        `matches` gets the name of a topic, and whether the topic is internal.
        """
        self._interest.match(matches)
        if matches is not None:
            self.request_update()

    def use_ids(self, topic_ids: Iterable[bytes]) -> None:
        """Also use the topics with exactly these ids, whose names may be unknown."""
        ids = set(topic_ids)
        unknown = ids - self.cluster.topic_names.keys()
        self._interest.ids = ids
        if unknown:
            self.request_update()

    # ---- updates

    def request_update(self) -> int:
        """Request a refresh and return the current version, for `wait_newer`."""
        self._schedule.request_full()
        self._requested.set()
        return self.version

    def request_update_for(self, topic: str) -> int:
        """Request a refresh of one used topic and return the current version.

        A topic that no response has described yet is requested without a backoff.
        """
        if topic not in self._interest.new:
            return self.request_update()
        self._request_new_topics()
        return self.version

    async def wait_newer(self, version: int) -> Cluster:
        """Wait until the version is newer than `version`, and return the view of that time.

        Raise AuthenticationError if a connection attempt fails meanwhile because broker or client refuse the other.
        """
        while self.version <= version:
            await self._updated.wait()
            if self._refusal is not None and self.version <= version:
                raise self._refusal.with_traceback(None)
        return self.cluster

    def call_when_updated(self, callback: Callable[[Cluster, Cluster], None]) -> None:
        """Call `callback` with the old and the new view whenever the view changes."""
        self._on_update.append(callback)

    def add_leaders(
        self, hints: Mapping[TopicPartition, LeaderHint], endpoints: Sequence[ClusterBroker]
    ) -> frozenset[TopicPartition]:
        """Add the leader hints of a response (KIP-951). Return the partitions that have a new leader."""
        cluster, changed = self.cluster.with_leaders(hints, endpoints)
        if changed:
            self._replace(cluster)
        return changed

    # ---- the task

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Refresh the metadata when it is requested or old, until cancelled."""
        while True:
            await self._wait_due()
            await self._refresh()

    async def _wait_due(self) -> None:
        while (due_at := self._schedule.due_at(trio.current_time())) > trio.current_time():
            self._requested = trio.Event()
            with trio.move_on_at(due_at):
                await self._requested.wait()

    async def _refresh(self) -> None:
        """Request the metadata from the least loaded node once. Rebootstrap first if that is necessary."""
        node_id = self._choose_node()
        if node_id is None:
            await trio.sleep(self._nodes.settings.reconnect_backoff_ms / 1000)
            return
        try:
            await self._request(node_id)
        except (OSError, Disconnected, UnsupportedVersion) as error:
            if self.cluster.is_bootstrap:
                host, port = self.cluster.brokers[node_id].host, self.cluster.brokers[node_id].port
                text = str(error) if self.version else self._nodes.settings.security.failure_text(error)
                self._last_failure = text
                logger.warning("bootstrap broker %s:%s sent no metadata: %s", host, port, text)
            self._schedule.failed(trio.current_time())

    def _choose_node(self) -> int | None:
        """Return the least loaded node, or None if no node can be used now, as while the client is being closed."""
        if not self._nodes.is_running:
            return None
        if self._attempts_began_at is None:
            self._attempts_began_at = trio.current_time()
        if self._settings.rebootstraps:
            if trio.current_time() - self._attempts_began_at > self._settings.rebootstrap_trigger_ms / 1000:
                self._nodes.close("the client rebootstraps, since it cannot get metadata")
                self._rebootstrap()
            elif self._nodes.least_loaded() is None and not self._nodes.any_open and not self.cluster.is_bootstrap:
                self._rebootstrap()
        return self._nodes.least_loaded()

    def _rebootstrap(self) -> None:
        """Forget all brokers but the bootstrap addresses (KIP-899)."""
        logger.info("rebootstrapping with %s", ", ".join(f"{host}:{port}" for host, port in self._settings.bootstrap))
        self._attempts_began_at = trio.current_time()
        self._schedule.request_full()
        self._replace(Cluster.bootstrap(self._settings.bootstrap))

    async def _request(self, node_id: int) -> None:
        version = (await self._nodes.connection(node_id)).newest_version(ApiKey.METADATA)
        full = self._schedule.is_full(trio.current_time())
        response = await self._nodes.ask(node_id, self._message(self._topics(full=full)), version)
        if not self._is_usable(response):
            self._schedule.failed(trio.current_time())
            return
        if full and self._interest.ids and version >= TOPIC_ID_VERSION_MIN:
            # A broker ignores the names in a request that has topic ids.
            ids = [MetadataRequestTopic(topic_id, None) for topic_id in sorted(self._interest.ids)]
            by_id = await self._nodes.ask(node_id, self._message(ids), version)
            named = {topic.name for topic in response.topics}
            response.topics += [topic for topic in by_id.topics if topic.name not in named]
        self._merge(response, version, full=full)

    def _message(self, topics: list[MetadataRequestTopic] | None) -> MetadataRequest:
        return MetadataRequest(topics=topics, allow_auto_topic_creation=self._settings.allow_auto_create)

    def _topics(self, *, full: bool) -> list[MetadataRequestTopic] | None:
        """Return the topics to request, where None stands for all topics."""
        interest = self._interest
        if full and interest.needs_all:
            return None
        return [MetadataRequestTopic(name=name) for name in sorted(interest.names if full else interest.new)]

    def _is_usable(self, response: MetadataResponse) -> bool:
        """Whether a response describes the cluster. A broker that starts may not know any broker yet."""
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED and self._settings.rebootstraps:
            logger.info("a broker requires a rebootstrap")
            self._attempts_began_at = -inf  # the next attempt rebootstraps
            return False
        return bool(response.brokers)

    def _merge(self, response: MetadataResponse, version: int, *, full: bool) -> None:
        now = trio.current_time()
        merged = self.cluster.merge(
            response,
            version,
            lambda name, topic_id, internal: self._interest.retains(name, topic_id, internal, now),
            partial=not full,
        )
        self._attempts_began_at = None
        self._schedule.succeeded(now, full=full, has_news=merged.has_news)
        self._interest.described(topic.name for topic in response.topics)
        if merged.is_stale:
            self._schedule.request_full()
        if self._interest.new:  # topics that were added while the request was in flight
            self._schedule.new_topics_requested = True
        self._report_errors(merged.cluster)
        for name in sorted(merged.recreated):
            logger.info("topic %s was recreated: its topic id has changed", name)
        self.version += 1
        self._refusal = None
        self._replace(merged.cluster)

    # ---- internals

    def _report_errors(self, cluster: Cluster) -> None:
        """Log the errors of topics when they change, and not at each of the refreshes that they cause."""
        errors = {name: error_name(topic.error) for name, topic in cluster.topics.items() if topic.error}
        if errors and errors != self._reported_errors:
            logger.warning("metadata: %s", ", ".join(f"topic {name}: {code}" for name, code in sorted(errors.items())))
        self._reported_errors = errors

    def _request_new_topics(self) -> None:
        self._schedule.request_new_topics()
        self._requested.set()

    def _replace(self, cluster: Cluster) -> None:
        old, self.cluster = self.cluster, cluster
        if cluster.brokers is not old.brokers:
            self._nodes.set_brokers(cluster.brokers)
        self._wake()
        for callback in self._on_update:
            callback(old, cluster)

    def _refused(self, error: AuthenticationError) -> None:
        self._refusal = error
        self._wake()

    def _wake(self) -> None:
        updated, self._updated = self._updated, trio.Event()
        updated.set()

    def _node_lost(self, _node_id: int) -> None:
        self.request_update()  # the connection may have ended because the broker has stopped
