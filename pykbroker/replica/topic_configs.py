"""The configs of topics on this broker, for their logs, for the controller's validation, and for clients."""

from __future__ import annotations

from typing import Any

import msgspec

from pykbroker.core.config.check import check_configs, check_topic_configs
from pykbroker.core.config.config import BrokerConfig, Texts, topic_config
from pykbroker.core.config.entries import describe_topic
from pykbroker.core.config.live_config import Dynamic, LiveConfig, valid_texts
from pykbroker.core.config.table import TOPIC
from pykbroker.storage.segments.config import LogConfig
from wire.messages.create_topics import CreatableTopicConfigs

LOG_CONFIGS_MAX = 1000
"""The maximum number of distinct sets of topic configs whose LogConfig is cached."""
DESCRIPTIONS_MAX = 100
"""The maximum number of distinct sets of topic configs whose description is cached.

A description takes longer than the creation of a topic.
"""


class TopicConfigs:
    """The effective configs of topics: their own configs (overrides), and the broker's values for all others.

    The class implements the Protocol `core.metadata.context.TopicConfigs`.
    """

    def __init__(self, broker: LiveConfig) -> None:
        self._broker = broker
        self._made_of: BrokerConfig | None = None
        """The broker's config of which the cached values are made."""
        self._log_configs: dict[object, LogConfig] = {}
        self._descriptions: dict[object, list[CreatableTopicConfigs]] = {}

    def validate(self, configs: Texts, dynamic: Dynamic) -> None:
        """Validate the configs of a topic. Raise INVALID_CONFIG if one is invalid."""
        check_topic_configs(configs, self._broker.under(dynamic))

    def check(self, resource: tuple[int, str], wanted: Texts, dynamic: Dynamic) -> None:
        """Validate all configs that a topic, broker, group or client metrics subscription would have after a change.

        Raise ApiError if a config is not allowed.
        """
        check_configs(resource, wanted, self._broker.under(dynamic))

    def describe(self, overrides: Texts, dynamic: Dynamic) -> list[CreatableTopicConfigs]:
        """Return every config of a topic with these overrides. The list is shared and must not be changed."""
        broker, key = self._under(dynamic), frozenset(overrides.items())
        described = self._descriptions.get(key)
        if described is None:
            if len(self._descriptions) >= DESCRIPTIONS_MAX:
                self._descriptions.clear()
            described = self._descriptions[key] = self._describe(overrides, broker)
        return described

    def _describe(self, overrides: Texts, broker: BrokerConfig) -> list[CreatableTopicConfigs]:
        return [
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in describe_topic(broker, overrides)
        ]

    def log_config(self, overrides: Texts, dynamic: Dynamic) -> LogConfig:
        """Return the configs of a log whose topic has these overrides."""
        broker, key = self._under(dynamic), frozenset(overrides.items())
        config = self._log_configs.get(key)
        if config is None:
            if len(self._log_configs) >= LOG_CONFIGS_MAX:
                self._log_configs.clear()
            config = self._log_configs[key] = self._make(overrides, broker)
        return config

    def _under(self, dynamic: Dynamic) -> BrokerConfig:
        """Return the broker's config, and forget what is made of another one."""
        broker = self._broker.under(dynamic)
        if broker is not self._made_of:
            self._made_of = broker
            self._log_configs.clear()
            self._descriptions.clear()
        return broker

    def _make(self, overrides: Texts, broker: BrokerConfig) -> LogConfig:
        values = topic_config(broker, valid_texts(TOPIC, overrides))
        fields: dict[str, Any] = {name.replace(".", "_"): value for name, value in values.items()}
        fields["segment_bytes"] = fields.get("internal_segment_bytes") or fields["segment_bytes"]
        fields["producer_id_expiration_ms"] = broker.producer_id_expiration_ms
        fields["flush_before_ack"] = broker.pykbroker_flush_before_ack
        fields["validate_records"] = broker.pykbroker_validate_records
        return msgspec.convert({name: fields[name] for name in LogConfig.__struct_fields__}, LogConfig)
