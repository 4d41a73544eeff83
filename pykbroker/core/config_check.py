"""Whether configs that a client sends can be: of topics, of groups and client metrics, and dynamic ones of brokers.

Each function answers with the refusal, or None. They check the whole set that a resource would have after the change.
"""

from __future__ import annotations

from collections.abc import Mapping

from pykbroker.core.config import DEFAULTS, BrokerConfig, Texts, read, refuse, topic_default
from pykbroker.core.config_row import Table, Update
from pykbroker.core.config_table import BROKER, TOPIC
from pykbroker.core.config_type import Value
from pykbroker.core.errors import ApiError
from wire.error_codes import ErrorCode


def validate_topic_configs(overrides: Mapping[str, str | None], broker: BrokerConfig | None = None) -> ApiError | None:
    """Why a topic cannot have these configs on this broker; None: it can."""
    try:
        texts = checked(TOPIC, "topic", overrides)
        under = broker.values if broker else DEFAULTS
        check_topic({name: topic_default(under, name) for name in TOPIC} | read(TOPIC, texts))
    except ApiError as error:
        return error
    return None


def check_topic(values: Mapping[str, Value]) -> None:
    """What no single row can say. ApiError INVALID_CONFIG."""
    low, high = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if low > high:  # type: ignore[operator]
        raise refuse(f"min.compaction.lag.ms ({low}) must not be greater than max.compaction.lag.ms ({high})")
    if values["remote.storage.enable"]:
        raise refuse("remote.storage.enable needs tiered storage, which this broker does not have")


def checked(table: Table, noun: str, given: Mapping[str, str | None]) -> Texts:
    """Configs that are all known and not null. ApiError INVALID_CONFIG."""
    for name in given:
        if name not in table:
            raise refuse(f"Unknown {noun} config name: {name}")
    nulls = [name for name, text in given.items() if text is None]
    if nulls:
        raise refuse(f"Null value not supported for {noun} configs: {','.join(nulls)}")
    return {name: text for name, text in given.items() if text is not None}


def validate_configs(table: Table, noun: str, given: Mapping[str, str | None]) -> ApiError | None:
    """Why configs of another kind of resource (a group, client metrics) cannot be; None: they can."""
    try:
        read(table, checked(table, noun, given))
    except ApiError as error:
        return error
    return None


def validate_broker_configs(broker: BrokerConfig, changes: Texts, *, cluster_wide: bool) -> ApiError | None:
    """Why a running broker cannot take these dynamic configs, all that the resource would have; None: it can.

    Unknown ones are allowed, as in Kafka, for plugins of other brokers.
    """
    updates = {name: BROKER[name].update for name in changes if name in BROKER}
    if fixed := [name for name, update in updates.items() if update is Update.READ_ONLY]:
        return unchangeable("Cannot update these configs dynamically", fixed)
    if cluster_wide and (single := [name for name, update in updates.items() if update is Update.PER_BROKER]):
        return unchangeable("Cannot update these configs at default cluster level, broker id must be specified", single)
    try:
        broker.with_dynamic(changes if cluster_wide else broker.cluster, broker.broker if cluster_wide else changes)
    except ApiError as error:
        return ApiError(ErrorCode.INVALID_REQUEST, error.message)
    return None


def unchangeable(reason: str, names: list[str]) -> ApiError:
    """The refusal of dynamic changes; Kafka's code for it is INVALID_REQUEST."""
    return ApiError(ErrorCode.INVALID_REQUEST, f"{reason}: {', '.join(names)}")
