"""The arguments of kafka-python's clients, and what they are in Kafka's names."""

from __future__ import annotations

import math
import re
import selectors
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from pykbroker.client.security_settings import PREFIXES, SECURITY
from pykbroker.client.security_settings import UNSUPPORTED as UNSUPPORTED_SECURITY
from pykbroker.client.settings import INT32_MAX, InvalidSetting
from pykbroker.consumer.settings import ASSIGNORS
from pykbroker.kafka.errors import KafkaConfigurationError
from pykbroker.kafka.partitioner import DefaultPartitioner, StickyPartitioner
from wire.declare import HIDDEN

UNSUPPORTED: Mapping[str, Any] = {
    **UNSUPPORTED_SECURITY,
    "metric_reporters": [],
    "selector": selectors.DefaultSelector,
    "socket_options": [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
}
"""The arguments for parts that this client lacks, with the only value that is allowed."""
WITHOUT_EFFECT: Mapping[str, Any] = {
    "api_version": None,
    "client_dns_lookup": "use_all_dns_ips",
    "metrics_num_samples": 2,
    "metrics_sample_window_ms": 30_000,
    "receive_buffer_bytes": None,
    "send_buffer_bytes": None,
}
"""The arguments that change no result: any value is accepted, and none has an effect."""
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
    "partitioner": DefaultPartitioner(),
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
    "metrics_enabled": True,
}
"""The arguments of KafkaProducer that have an effect, with kafka-python's defaults."""
PRODUCER_CONFIG: Mapping[str, Any] = {
    **UNSUPPORTED,
    **SECURITY,
    **WITHOUT_EFFECT,
    "bootstrap_timeout_ms": 30_000,
    **PRODUCER_DEFAULTS,
}
"""All arguments of KafkaProducer. It is made without a broker, so that it does not wait for a bootstrap."""
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
    "metrics_enabled": True,
    "metric_group_prefix": "consumer",
}
"""The arguments of KafkaConsumer that have an effect, with kafka-python's defaults."""
CONSUMER_CONFIG: Mapping[str, Any] = {
    **UNSUPPORTED,
    **SECURITY,
    **WITHOUT_EFFECT,
    "enable_incremental_fetch_sessions": True,
    "max_in_flight_requests_per_connection": 5,
    **CONSUMER_DEFAULTS,
}
"""All arguments of KafkaConsumer."""
FOR_FACE = (
    "bootstrap_timeout_ms",
    "consumer_timeout_ms",
    "default_offset_commit_callback",
    "key_deserializer",
    "metric_group_prefix",
    "metrics_enabled",
    "value_deserializer",
)
"""The arguments of KafkaConsumer that the consumer behind it does not have."""
OWN_PARTITIONERS = (DefaultPartitioner, StickyPartitioner)
"""The partitioners that choose as the producer itself does, which then calls none for each record."""
NO_OFFSET_RESET = "none"
_RESETS = {"smallest": "earliest", "largest": "latest", "earliest": "earliest", "latest": "latest"}


@contextmanager
def configuration_errors() -> Iterator[None]:
    """Raise the errors of settings as that of kafka-python."""
    try:
        yield
    except InvalidSetting as error:
        raise KafkaConfigurationError(str(error)) from error


def arguments(given: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return all arguments of a client. `known` are those of its class, with their defaults.

    Raise KafkaConfigurationError for an argument that is unknown, with the nearest name, and for one that is not
    supported, unless it has its default.
    """
    for name, value in given.items():
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f": do you mean {near[0]!r}?" if near else ""
            shown = HIDDEN if name.startswith(PREFIXES) else value  # it may be a password
            raise KafkaConfigurationError(f"Unrecognized configs: {{{name!r}: {shown!r}}}{hint}")
        if name in UNSUPPORTED and value != UNSUPPORTED[name]:
            raise KafkaConfigurationError(f"{name}={value!r} is not supported: leave it out")
    return {**known, **given}


def security_of(configs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for TLS and SASL that are not at their defaults."""
    return {name: configs[name] for name in SECURITY if configs[name] != SECURITY[name]}


def check_version(version: Any, *, may_be_auto: bool) -> None:
    """Raise KafkaConfigurationError for an `api_version` that kafka-python does not take. It has no effect here."""
    is_text = isinstance(version, str)
    if is_text and not re.fullmatch(r"\d+(\.\d+)*", version) and not (may_be_auto and version == "auto"):
        raise KafkaConfigurationError(f"api_version={version!r} is not allowed: leave it out, or pass (4, 3)")


def producer_configs(configs: Mapping[str, Any]) -> dict[str, Any]:
    """Return all arguments of a KafkaProducer. Raise KafkaConfigurationError for one that is not allowed."""
    found = arguments(configs, PRODUCER_CONFIG)
    check_version(found["api_version"], may_be_auto=True)
    return found


def producer_settings_of(configs: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of our producer. `given` are the arguments that the caller has set.

    As in kafka-python, an argument that contradicts idempotence disables it unless idempotence was asked for.
    """
    settings = {name: configs[name] for name in PRODUCER_DEFAULTS} | security_of(configs)
    for name in ("client_id", "compression_type", "transactional_id"):
        if settings[name] is None:
            del settings[name]
    for name in ("key_serializer", "value_serializer", "partitioner", "metrics_enabled"):
        del settings[name]
    settings["retries"] = INT32_MAX if settings["retries"] == math.inf else settings["retries"]
    for name in ("enable_idempotence", "acks", "delivery_timeout_ms", "batch_size"):
        if name not in given:
            del settings[name]
    in_flight = settings["max_in_flight_requests_per_connection"]
    if "enable_idempotence" not in given and "transactional_id" not in settings and in_flight > 5:
        settings["enable_idempotence"] = False
    return settings


def consumer_configs(configs: Mapping[str, Any]) -> dict[str, Any]:
    """Return all arguments of a KafkaConsumer. Raise KafkaConfigurationError for one that is not allowed."""
    found = arguments(configs, CONSUMER_CONFIG)
    check_version(found["api_version"], may_be_auto=False)
    fetch_ms, request_ms, idle_ms = (
        found[name] for name in ("fetch_max_wait_ms", "request_timeout_ms", "connections_max_idle_ms")
    )
    if not fetch_ms < request_ms < idle_ms:
        raise KafkaConfigurationError(
            f"connections_max_idle_ms ({idle_ms}) must be larger than request_timeout_ms ({request_ms}) which must be "
            f"larger than fetch_max_wait_ms ({fetch_ms})."
        )
    for name in ("client_id", "group_id"):
        if isinstance(found[name], int):
            found[name] = str(found[name])
    return found


def consumer_settings_of(configs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of our consumer. Raise KafkaConfigurationError for an assignor that is not one of Kafka's."""
    settings = {name: configs[name] for name in CONSUMER_DEFAULTS} | security_of(configs)
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
    """Return the name of an assignor, from the name itself or a class of kafka-python.

    Raise KafkaConfigurationError for an assignor of one's own.
    """
    name = assignor if isinstance(assignor, str) else getattr(assignor, "name", None)
    if name not in ASSIGNORS:
        raise KafkaConfigurationError(
            f"partition_assignment_strategy: {assignor!r} is not supported; use {', '.join(ASSIGNORS)}, as text"
        )
    return str(name)
