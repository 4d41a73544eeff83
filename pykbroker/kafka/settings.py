"""The arguments of kafka-python's clients, and what they are in Kafka's names."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

from pykbroker.client.settings import INT32_MAX

SECURITY: Mapping[str, Any] = {
    "security_protocol": "PLAINTEXT",
    "ssl_context": None,
    "ssl_check_hostname": True,
    "ssl_cafile": None,
    "ssl_certfile": None,
    "ssl_keyfile": None,
    "ssl_crlfile": None,
    "ssl_password": None,
    "ssl_ciphers": None,
    "sasl_mechanism": None,
    "sasl_plain_username": None,
    "sasl_plain_password": None,
    "sasl_kerberos_name": None,
    "sasl_kerberos_service_name": "kafka",
    "sasl_kerberos_domain_name": None,
    "sasl_oauth_token_provider": None,
    "proxy_url": None,
    "socks5_proxy": None,
    "kafka_client": None,
}
"""The arguments for TLS, SASL, proxies and other networks, with the only value that is supported."""
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


def refuse_security(configs: Mapping[str, Any]) -> None:
    """Raise ValueError for an argument of TLS, SASL or a proxy that is not at its default."""
    for name, default in SECURITY.items():
        if name in configs and configs[name] != default:
            raise ValueError(
                f"{name}={configs[name]!r} is not supported: this client connects without TLS, SASL or proxy. "
                "Use the plaintext listener of the broker."
            )


def producer_configs(configs: Mapping[str, Any]) -> dict[str, Any]:
    """Return all arguments of a KafkaProducer. Raise ValueError for one that is unknown or not supported."""
    refuse_security(configs)
    known = PRODUCER_DEFAULTS.keys() | SECURITY.keys() | WITHOUT_EFFECT
    unknown = {name: value for name, value in configs.items() if name not in known and name not in DEPRECATED}
    if unknown:
        raise ValueError(f"Unrecognized configs: {unknown}")
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
