"""The configs of topics on this broker: what a log obeys, what the controller may accept, what clients are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pykbroker.core.config import BrokerConfig, Texts, topic_config
from pykbroker.core.config_check import validate_topic_configs
from pykbroker.core.config_entries import describe_topic
from pykbroker.storage.config import LogConfig
from wire.messages.create_topics import CreatableTopicConfigs

LOG_CONFIGS_MAX = 1000
"""Different sets of overrides whose meaning is remembered."""


class TopicConfigs:
    """Topic overrides over the broker's own values. Matches `core.metadata.context.TopicConfigs`."""

    def __init__(self, broker: BrokerConfig) -> None:
        self._broker = broker
        self._log_configs: dict[object, LogConfig] = {}

    def validate(self, configs: Mapping[str, str]) -> None:
        """ApiError INVALID_CONFIG for a name or value that no topic may have."""
        refusal = validate_topic_configs(configs, self._broker)
        if refusal is not None:
            raise refusal

    def describe(self, overrides: Mapping[str, str], defaults: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        """Every config of a topic with these overrides; `defaults` are those set for all brokers."""
        broker = self._broker.with_dynamic(defaults) if defaults else self._broker
        return [
            CreatableTopicConfigs(
                name=entry.name, value=entry.value, read_only=entry.read_only,
                config_source=entry.source, is_sensitive=entry.sensitive,
            )
            for entry in describe_topic(broker, overrides)
        ]  # fmt: skip

    def log_config(self, overrides: Texts, defaults: Texts) -> LogConfig:
        """What the log of a topic with these overrides obeys."""
        key = (tuple(sorted(overrides.items())), tuple(sorted(defaults.items())))
        config = self._log_configs.get(key)
        if config is None:
            if len(self._log_configs) >= LOG_CONFIGS_MAX:
                self._log_configs.clear()
            config = self._log_configs[key] = self._make(overrides, defaults)
        return config

    def _make(self, overrides: Texts, defaults: Texts) -> LogConfig:
        values = topic_config(self._broker, defaults, overrides)
        fields: dict[str, Any] = {name.replace(".", "_"): value for name, value in values.items()}
        fields["segment_bytes"] = fields.get("internal_segment_bytes") or fields["segment_bytes"]
        fields["producer_id_expiration_ms"] = self._broker.producer_id_expiration_ms
        fields["flush_before_ack"] = self._broker.pykbroker_flush_before_ack
        fields["validate_records"] = self._broker.pykbroker_validate_records
        return msgspec.convert({name: fields[name] for name in LogConfig.__struct_fields__}, LogConfig)
