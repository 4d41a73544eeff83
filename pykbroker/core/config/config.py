"""The broker's configs: three layers of values over the defaults, and the topic configs that follow from them.

1. The order of precedence is: the dynamic value of this broker, the cluster-wide dynamic value, the static value (from
   a file or the command line), Kafka's default.
2. A `BrokerConfig` is immutable: a dynamic change creates a new one.
3. Unknown configs are kept, described without their value, and have no effect.
4. The dynamic layers keep the variables of config providers. They are replaced in `values` and `texts`, and were
   replaced in the static layer before the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar, overload

import msgspec

from pykbroker.core.config.authorizer_configs import OF_AUTHORIZER, AuthorizerSettings, authorizer_settings
from pykbroker.core.config.broker_bounds import check_broker_bounds
from pykbroker.core.config.group_bounds import check_broker_groups
from pykbroker.core.config.host_counts import read_host_counts
from pykbroker.core.config.java_classes import check_no_classes
from pykbroker.core.config.providers import PREFIX as PROVIDERS
from pykbroker.core.config.providers import VARIABLE_BEGIN, ConfigSources, resolve
from pykbroker.core.config.row import ConfigTable, Row
from pykbroker.core.config.table import BROKER, FILL_IN, LISTENER_PREFIX, TOPIC, TOPIC_SYNONYMS, listener_row
from pykbroker.core.config.type import Value, invalid, refuse
from pykbroker.core.errors import ApiError

T = TypeVar("T")
Texts = Mapping[str, str]

DEFAULTS = {name: row.default for name, row in BROKER.items()}
MS_OF_UNIT = {"hours": 3_600_000, "minutes": 60_000}


class Setting(Generic[T]):
    """A descriptor: an attribute of BrokerConfig that reads one config."""

    def __init__(self, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, config: None, owner: type[object]) -> Setting[T]: ...
    @overload
    def __get__(self, config: BrokerConfig, owner: type[object]) -> T: ...
    def __get__(self, config: BrokerConfig | None, owner: type[object]) -> Setting[T] | T:
        return self if config is None else config.values[self.name]  # type: ignore[return-value]


class BrokerConfig(msgspec.Struct, frozen=True, eq=False):
    """The three layers of configs as texts, and the effective values in `values`, by Kafka's names.

    `texts` has the text of each config that is set, with and without prefixes. Configs that the broker itself uses are
    also attributes, named as in Kafka but with underscores. Config providers read `sources`; without them, the
    variables in dynamic configs stay as they are.
    """

    static: Texts
    cluster: Texts
    broker: Texts
    values: Mapping[str, Value]
    texts: Texts
    sources: ConfigSources | None = None

    def __repr__(self) -> str:
        return f"BrokerConfig({', '.join(sorted(self.texts))})"  # a value may be a password

    @classmethod
    def from_mapping(
        cls, static: Texts, sources: ConfigSources | None = None, written: Texts | None = None
    ) -> BrokerConfig:
        """Return the config of a file and the command line. Raise ApiError INVALID_CONFIG if a value is invalid.

        `written` has the texts before their variables were replaced.
        """
        filled = {**FILL_IN, **({"node.id": static["broker.id"]} if "broker.id" in static else {}), **static}
        filled["broker.id"] = filled.get("broker.id", filled["node.id"])
        config = cls.of_layers(filled, {}, {}, sources, written)
        check_no_classes(static, config.pykbroker_ignore_classes)
        authorizer_settings(static, config.pykbroker_ignore_classes)
        return config

    @classmethod
    def of_layers(
        cls,
        static: Texts,
        cluster: Texts,
        broker: Texts,
        sources: ConfigSources | None = None,
        written: Texts | None = None,
    ) -> BrokerConfig:
        """Return the config of three layers. `broker` takes precedence over `cluster`, and `cluster` over `static`."""
        texts, dynamic = {**static, **cluster, **broker}, {**cluster, **broker}
        if sources is not None and dynamic:
            texts |= resolve(dynamic, texts, sources)
        values = {**DEFAULTS, **read_broker(texts, {**(written or {}), **dynamic})}
        check_broker(values)
        return cls(static, cluster, broker, values, texts, sources)

    def with_dynamic(self, cluster: Texts, broker: Texts | None = None) -> BrokerConfig:
        """Return the config with the same static values and these dynamic values: cluster-wide, and of this broker."""
        return self.of_layers(self.static, cluster, broker or {}, self.sources)

    def get(self, name: str) -> Value:
        """Return the typed value of a config. Raise KeyError if the config is not in the table."""
        return self.values[name]

    def of_listener(self, listener: str, name: str) -> Value:
        """Return the listener's own value of a config of `OF_LISTENERS`, or the broker's value if it has none."""
        return self.values.get(f"{LISTENER_PREFIX}{listener.lower()}.{name}", self.values[name])

    @property
    def authorizer(self) -> AuthorizerSettings | None:
        """Return the settings of the authorizer, or None if every client may do everything."""
        return authorizer_settings(self.static, self.pykbroker_ignore_classes)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Return the names of static configs that are in no table, sorted."""
        return tuple(sorted(name for name in self.static if not known(name)))

    # The node and its connections
    node_id = Setting[int]("node.id")
    broker_rack = Setting[str | None]("broker.rack")
    broker_session_timeout_ms = Setting[int]("broker.session.timeout.ms")
    broker_heartbeat_interval_ms = Setting[int]("broker.heartbeat.interval.ms")
    controller_quorum_fetch_max_bytes = Setting[int]("controller.quorum.fetch.max.bytes")
    controller_quorum_fetch_snapshot_max_bytes = Setting[int]("controller.quorum.fetch.snapshot.max.bytes")
    controller_quorum_request_timeout_ms = Setting[int]("controller.quorum.request.timeout.ms")
    controller_quorum_retry_backoff_ms = Setting[int]("controller.quorum.retry.backoff.ms")
    controller_socket_timeout_ms = Setting[int]("controller.socket.timeout.ms")
    controlled_shutdown_enable = Setting[bool]("controlled.shutdown.enable")
    initial_broker_registration_timeout_ms = Setting[int]("initial.broker.registration.timeout.ms")
    connections_max_idle_ms = Setting[int]("connections.max.idle.ms")
    fetch_max_bytes = Setting[int]("fetch.max.bytes")
    max_connection_creation_rate = Setting[int]("max.connection.creation.rate")
    max_connections = Setting[int]("max.connections")
    max_connections_per_ip = Setting[int]("max.connections.per.ip")
    max_connections_per_ip_overrides = Setting[str]("max.connections.per.ip.overrides")
    max_incremental_fetch_session_cache_slots = Setting[int]("max.incremental.fetch.session.cache.slots")
    max_request_partition_size_limit = Setting[int]("max.request.partition.size.limit")
    queued_max_request_bytes = Setting[int]("queued.max.request.bytes")
    queued_max_requests = Setting[int]("queued.max.requests")
    request_timeout_ms = Setting[int]("request.timeout.ms")
    socket_connection_setup_timeout_max_ms = Setting[int]("socket.connection.setup.timeout.max.ms")
    socket_connection_setup_timeout_ms = Setting[int]("socket.connection.setup.timeout.ms")
    socket_listen_backlog_size = Setting[int]("socket.listen.backlog.size")
    socket_receive_buffer_bytes = Setting[int]("socket.receive.buffer.bytes")
    socket_request_max_bytes = Setting[int]("socket.request.max.bytes")
    socket_send_buffer_bytes = Setting[int]("socket.send.buffer.bytes")
    telemetry_max_bytes = Setting[int]("telemetry.max.bytes")

    # Topics and logs
    alter_log_dirs_replication_quota_window_num = Setting[int]("alter.log.dirs.replication.quota.window.num")
    alter_log_dirs_replication_quota_window_size_seconds = Setting[int](
        "alter.log.dirs.replication.quota.window.size.seconds"
    )
    auto_create_topics_enable = Setting[bool]("auto.create.topics.enable")
    auto_leader_rebalance_enable = Setting[bool]("auto.leader.rebalance.enable")
    default_replication_factor = Setting[int]("default.replication.factor")
    delete_topic_enable = Setting[bool]("delete.topic.enable")
    leader_imbalance_check_interval_seconds = Setting[int]("leader.imbalance.check.interval.seconds")
    log_cleaner_backoff_ms = Setting[int]("log.cleaner.backoff.ms")
    log_cleaner_dedupe_buffer_size = Setting[int]("log.cleaner.dedupe.buffer.size")
    log_cleaner_enable = Setting[bool]("log.cleaner.enable")
    log_cleaner_io_buffer_load_factor = Setting[float]("log.cleaner.io.buffer.load.factor")
    log_cleaner_io_max_bytes_per_second = Setting[float]("log.cleaner.io.max.bytes.per.second")
    log_retention_check_interval_ms = Setting[int]("log.retention.check.interval.ms")
    min_insync_replicas = Setting[int]("min.insync.replicas")
    num_partitions = Setting[int]("num.partitions")
    num_replica_fetchers = Setting[int]("num.replica.fetchers")
    producer_id_expiration_ms = Setting[int]("producer.id.expiration.ms")
    replica_fetch_backoff_ms = Setting[int]("replica.fetch.backoff.ms")
    replica_fetch_max_bytes = Setting[int]("replica.fetch.max.bytes")
    replica_fetch_min_bytes = Setting[int]("replica.fetch.min.bytes")
    replica_fetch_response_max_bytes = Setting[int]("replica.fetch.response.max.bytes")
    replica_fetch_wait_max_ms = Setting[int]("replica.fetch.wait.max.ms")
    replica_high_watermark_checkpoint_interval_ms = Setting[int]("replica.high.watermark.checkpoint.interval.ms")
    replica_lag_time_max_ms = Setting[int]("replica.lag.time.max.ms")
    replica_selector_class = Setting[str | None]("replica.selector.class")
    replica_socket_receive_buffer_bytes = Setting[int]("replica.socket.receive.buffer.bytes")
    replica_socket_timeout_ms = Setting[int]("replica.socket.timeout.ms")
    replication_quota_window_num = Setting[int]("replication.quota.window.num")
    replication_quota_window_size_seconds = Setting[int]("replication.quota.window.size.seconds")
    unclean_leader_election_enable = Setting[bool]("unclean.leader.election.enable")
    unclean_leader_election_interval_ms = Setting[int]("unclean.leader.election.interval.ms")

    # Groups and transactions
    group_consumer_assignors = Setting[tuple[str, ...]]("group.consumer.assignors")
    group_consumer_heartbeat_interval_ms = Setting[int]("group.consumer.heartbeat.interval.ms")
    group_consumer_max_heartbeat_interval_ms = Setting[int]("group.consumer.max.heartbeat.interval.ms")
    group_consumer_max_session_timeout_ms = Setting[int]("group.consumer.max.session.timeout.ms")
    group_consumer_max_size = Setting[int]("group.consumer.max.size")
    group_consumer_migration_policy = Setting[str]("group.consumer.migration.policy")
    group_consumer_min_heartbeat_interval_ms = Setting[int]("group.consumer.min.heartbeat.interval.ms")
    group_consumer_min_session_timeout_ms = Setting[int]("group.consumer.min.session.timeout.ms")
    group_consumer_regex_refresh_interval_ms = Setting[int]("group.consumer.regex.refresh.interval.ms")
    group_consumer_session_timeout_ms = Setting[int]("group.consumer.session.timeout.ms")
    group_coordinator_rebalance_protocols = Setting[tuple[str, ...]]("group.coordinator.rebalance.protocols")
    group_initial_rebalance_delay_ms = Setting[int]("group.initial.rebalance.delay.ms")
    group_max_session_timeout_ms = Setting[int]("group.max.session.timeout.ms")
    group_max_size = Setting[int]("group.max.size")
    group_min_session_timeout_ms = Setting[int]("group.min.session.timeout.ms")
    offset_metadata_max_bytes = Setting[int]("offset.metadata.max.bytes")
    offsets_commit_timeout_ms = Setting[int]("offsets.commit.timeout.ms")
    offsets_retention_check_interval_ms = Setting[int]("offsets.retention.check.interval.ms")
    offsets_retention_minutes = Setting[int]("offsets.retention.minutes")
    offsets_topic_num_partitions = Setting[int]("offsets.topic.num.partitions")
    offsets_topic_replication_factor = Setting[int]("offsets.topic.replication.factor")
    offsets_topic_segment_bytes = Setting[int]("offsets.topic.segment.bytes")
    add_partitions_to_txn_retry_backoff_max_ms = Setting[int]("add.partitions.to.txn.retry.backoff.max.ms")
    transaction_abort_timed_out_transaction_cleanup_interval_ms = Setting[int](
        "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    )
    transaction_max_timeout_ms = Setting[int]("transaction.max.timeout.ms")
    transaction_partition_verification_enable = Setting[bool]("transaction.partition.verification.enable")
    transaction_remove_expired_transaction_cleanup_interval_ms = Setting[int](
        "transaction.remove.expired.transaction.cleanup.interval.ms"
    )
    transaction_state_log_min_isr = Setting[int]("transaction.state.log.min.isr")
    transaction_state_log_num_partitions = Setting[int]("transaction.state.log.num.partitions")
    transaction_state_log_replication_factor = Setting[int]("transaction.state.log.replication.factor")
    transaction_state_log_segment_bytes = Setting[int]("transaction.state.log.segment.bytes")
    transactional_id_expiration_ms = Setting[int]("transactional.id.expiration.ms")
    cordoned_log_dirs = Setting[tuple[str, ...]]("cordoned.log.dirs")
    log_dir_failure_timeout_ms = Setting[int]("log.dir.failure.timeout.ms")

    # pykbroker's own
    pykbroker_client_descriptors_min = Setting[int]("pykbroker.client.descriptors.min")
    pykbroker_flush_before_ack = Setting[bool]("pykbroker.flush.before.ack")
    pykbroker_ignore_classes = Setting[tuple[str, ...]]("pykbroker.ignore.classes")
    pykbroker_memory_budget_bytes = Setting[int]("pykbroker.memory.budget.bytes")
    pykbroker_metrics_partitions_max = Setting[int]("pykbroker.metrics.partitions.max")
    pykbroker_scrub_bytes_per_second = Setting[int]("pykbroker.scrub.bytes.per.second")
    pykbroker_scrub_interval_ms = Setting[int]("pykbroker.scrub.interval.ms")
    pykbroker_validate_records = Setting[bool]("pykbroker.validate.records")

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """Return `log.dirs`, or `log.dir` if `log.dirs` is unset."""
        dirs = self.values["log.dirs"] or self.values["log.dir"]
        assert isinstance(dirs, tuple)
        return dirs


def known(name: str) -> bool:
    """Whether a config of this name may have an effect, with or without the prefix `listener.name.<listener>.`."""
    return name in BROKER or name in OF_AUTHORIZER or name.startswith((LISTENER_PREFIX, PROVIDERS))


def read(table: ConfigTable, texts: Texts) -> dict[str, Value]:
    """Return the typed values of the texts whose configs are in the table."""
    return {name: table[name].read(text) for name, text in texts.items() if name in table}


def read_broker(texts: Texts, written: Texts) -> dict[str, Value]:
    """Return the typed values of broker configs, including values for single listeners.

    `written` has texts before their variables were replaced: an error quotes those, since the others may be secrets.
    """
    rows = ((row, name, text) for name, text in texts.items() if (row := BROKER.get(name) or listener_row(name)))
    return {name: read_resolved(row, name, text, written.get(name, text)) for row, name, text in rows}


def read_resolved(row: Row, name: str, text: str, written: str) -> Value:
    """Return the typed value of a text whose variables have been replaced. `written` is the text before."""
    try:
        return row.read(text)
    except ApiError:
        if text == written or VARIABLE_BEGIN not in written:
            raise
        raise invalid(name, written, f"The value of the variable is no valid {row.type.name}") from None


def check_connections(values: Mapping[str, Value]) -> None:
    """Raise ApiError INVALID_CONFIG if configs of connections and requests contradict each other."""
    overrides = read_host_counts("max.connections.per.ip.overrides", str(values["max.connections.per.ip.overrides"]))
    if values["max.connections.per.ip"] == 0 and not overrides:
        raise refuse(
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."
        )
    queued, largest = values["queued.max.request.bytes"], values["socket.request.max.bytes"]
    if 0 < queued < largest:  # type: ignore[operator]
        raise refuse(f"queued.max.request.bytes {queued} must not be below socket.request.max.bytes {largest}")


def check_times(values: Mapping[str, Value]) -> None:
    """Raise ApiError for invalid times of segments and retention.

    Retention may be set in ms, minutes or hours; only the finest unit that is set is checked. A negative retention is
    unlimited.
    """
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        if values[name] == 0:
            raise refuse(f"{name} must be unlimited (-1) or, greater than or equal to 1")
        if values[name] is not None:
            break
    for name, least in (("log.roll.ms", 1), ("log.roll.jitter.ms", 0)):
        if (time := values[name]) is not None and time < least:  # type: ignore[operator]
            raise refuse(f"{name} must be greater than or equal to {least}")


def check_broker(values: Mapping[str, Value]) -> None:
    """Raise ApiError INVALID_CONFIG if configs contradict each other."""
    check_times(values)
    check_connections(values)
    check_broker_bounds(values)
    check_broker_groups(values)
    if values["node.id"] != values["broker.id"]:
        raise refuse(f"node.id {values['node.id']} and broker.id {values['broker.id']} must be the same")


def topic_default(values: Mapping[str, Value], name: str) -> Value:
    """Return the broker's default for a topic config."""
    for synonym in TOPIC_SYNONYMS.get(name, ()):
        value = values[synonym]
        if value is not None:
            factor = MS_OF_UNIT.get(synonym.rpartition(".")[2], 1)
            if name == "retention.ms" and value < 0:  # type: ignore[operator]
                return -1
            return value * factor if isinstance(value, int) and factor > 1 else value
    return TOPIC[name].default


def topic_config(broker: BrokerConfig, overrides: Texts) -> dict[str, Value]:
    """Return the effective value of every topic config, from the topic's own overrides and the broker's defaults."""
    return {name: topic_default(broker.values, name) for name in TOPIC} | read(TOPIC, overrides)
