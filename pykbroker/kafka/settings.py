"""The arguments of kafka-python's clients, and what they are in Kafka's names."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from pykbroker.client.security import SECURITY, without_security
from pykbroker.client.settings import INT32_MAX
from pykbroker.consumer.settings import ASSIGNORS

WITHOUT_EFFECT = frozenset(
    {
        "api_version",
        "bootstrap_timeout_ms",
        "client_dns_lookup",
        "metric_reporters",
        "metrics_enabled",
        "metrics_num_samples",
        "metrics_sample_window_ms",
        "receive_buffer_bytes",
        "selector",
        "send_buffer_bytes",
        "socket_options",
    }
)
"""The arguments that are accepted and have no effect, because this client has no such part."""
DEPRECATED = frozenset({"buffer_memory_", "api_version_auto_timeout_ms", "wakeup_timeout_ms"})
PRODUCER_DEFAULTS: Mapping[str, Any] = {
    "bootstrap_servers": "localhost",
    "client_id": None,
    "key_serializer": None,
    "value_serializer": None,
    "enable_idempotence": True,
    "transactional_id": None,
    "transaction_timeout_ms": 60_000,
    "delivery_timeout_ms": 120_000,
    "acks": -1,
    "compression_type": None,
    "retries": math.inf,
    "batch_size": 16_384,
    "linger_ms": 0,
    "partitioner": None,
    "buffer_memory": 32 << 20,
    "connections_max_idle_ms": 540_000,
    "max_block_ms": 60_000,
    "max_request_size": 1 << 20,
    "allow_auto_create_topics": True,
    "metadata_max_age_ms": 300_000,
    "retry_backoff_ms": 100,
    "request_timeout_ms": 30_000,
    "receive_message_max_bytes": 100_000_000,
    "reconnect_backoff_ms": 50,
    "reconnect_backoff_max_ms": 30_000,
    "max_in_flight_requests_per_connection": 5,
}
"""The arguments of KafkaProducer, with kafka-python's defaults."""
CONSUMER_DEFAULTS: Mapping[str, Any] = {
    "bootstrap_servers": "localhost",
    "bootstrap_timeout_ms": 30_000,
    "client_id": None,
    "client_rack": "",
    "group_id": None,
    "group_instance_id": None,
    "key_deserializer": None,
    "value_deserializer": None,
    "fetch_max_wait_ms": 500,
    "fetch_min_bytes": 1,
    "fetch_max_bytes": 50 << 20,
    "max_partition_fetch_bytes": 1 << 20,
    "request_timeout_ms": 30_000,
    "retry_backoff_ms": 100,
    "reconnect_backoff_ms": 50,
    "reconnect_backoff_max_ms": 30_000,
    "auto_offset_reset": "latest",
    "enable_auto_commit": True,
    "auto_commit_interval_ms": 5000,
    "default_offset_commit_callback": lambda _offsets, _response: True,
    "check_crcs": True,
    "isolation_level": "read_uncommitted",
    "allow_auto_create_topics": True,
    "metadata_max_age_ms": 300_000,
    "partition_assignment_strategy": ("range", "roundrobin"),
    "max_poll_records": 500,
    "max_poll_interval_ms": 300_000,
    "session_timeout_ms": 45_000,
    "heartbeat_interval_ms": 3000,
    "receive_message_max_bytes": 100_000_000,
    "consumer_timeout_ms": math.inf,
    "connections_max_idle_ms": 540_000,
    "exclude_internal_topics": True,
}
"""The arguments of KafkaConsumer, with kafka-python's defaults."""
CONSUMER_WITHOUT_EFFECT = WITHOUT_EFFECT | {
    "enable_incremental_fetch_sessions",
    "max_in_flight_requests_per_connection",
    "metric_group_prefix",
}
FOR_FACE = (
    "bootstrap_timeout_ms",
    "consumer_timeout_ms",
    "default_offset_commit_callback",
    "key_deserializer",
    "value_deserializer",
)
"""The arguments of KafkaConsumer that the consumer behind it does not have."""
NO_OFFSET_RESET = "none"
_RESETS = {"smallest": "earliest", "largest": "latest", "earliest": "earliest", "latest": "latest"}


def refuse_unknown(configs: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise ValueError for arguments that are unknown, with the nearest name of each, and for those of TLS and SASL."""
    without_security(configs)
    unknown = {name: value for name, value in configs.items() if name not in known and name not in SECURITY}
    if unknown:
        near = [found for name in unknown for found in get_close_matches(name, known, 1)]
        hint = f": do you mean {', '.join(map(repr, near))}?" if near else ""
        raise ValueError(f"Unrecognized configs: {unknown}{hint}")


def producer_configs(configs: Mapping[str, Any]) -> dict[str, Any]:
    """Return all arguments of a KafkaProducer. Raise ValueError for one that is unknown or not supported."""
    refuse_unknown(configs, PRODUCER_DEFAULTS.keys() | WITHOUT_EFFECT | DEPRECATED)
    for name in DEPRECATED & configs.keys():
        warnings.warn(f"Deprecated Producer config: {name}", category=DeprecationWarning, stacklevel=4)
    return {name: configs.get(name, default) for name, default in PRODUCER_DEFAULTS.items()}


def producer_settings_of(configs: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of our producer. `given` are the arguments that the caller has set.

    As in kafka-python, an argument that contradicts idempotence disables it unless idempotence was asked for.
    """
    settings = dict(configs)
    for name in ("client_id", "compression_type", "transactional_id"):
        if settings[name] is None:
            del settings[name]
    for name in ("key_serializer", "value_serializer", "partitioner"):
        del settings[name]
    settings["retries"] = INT32_MAX if settings["retries"] == math.inf else settings["retries"]
    for name in ("enable_idempotence", "acks", "delivery_timeout_ms"):
        if name not in given:
            del settings[name]
    in_flight = settings["max_in_flight_requests_per_connection"]
    if "enable_idempotence" not in given and "transactional_id" not in settings and in_flight > 5:
        settings["enable_idempotence"] = False
    return settings


def consumer_configs(configs: Mapping[str, Any]) -> dict[str, Any]:
    """Return all arguments of a KafkaConsumer. Raise ValueError for one that is unknown or not supported."""
    refuse_unknown(configs, CONSUMER_DEFAULTS.keys() | CONSUMER_WITHOUT_EFFECT)
    return {name: configs.get(name, default) for name, default in CONSUMER_DEFAULTS.items()}


def consumer_settings_of(configs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of our consumer. Raise ValueError for an assignor that is not one of Kafka's."""
    settings = dict(configs)
    for name in FOR_FACE:
        del settings[name]
    settings["auto_offset_reset"] = _RESETS.get(settings["auto_offset_reset"], NO_OFFSET_RESET)
    settings["partition_assignment_strategy"] = [
        assignor_name(each) for each in settings["partition_assignment_strategy"]
    ]
    settings["receive_message_max_bytes"] = max(
        settings["receive_message_max_bytes"], settings["fetch_max_bytes"] + settings["max_partition_fetch_bytes"]
    )
    for name in ("group_id", "group_instance_id"):
        if settings[name] is None:
            del settings[name]
    if "group_id" not in settings:
        settings["enable_auto_commit"] = None
    return settings


def assignor_name(assignor: Any) -> str:
    """Return the name of an assignor, which is a name, or a class of kafka-python. Raise ValueError if it is custom."""
    name = assignor if isinstance(assignor, str) else getattr(assignor, "name", None)
    if name not in ASSIGNORS:
        raise ValueError(
            f"partition_assignment_strategy: {assignor!r} is not supported; use {', '.join(ASSIGNORS)}, as text"
        )
    return str(name)
