"""The effective config of a running broker: the static config, overridden by the dynamic configs of the metadata."""

from __future__ import annotations

from typing import NamedTuple

from pykbroker.core.config.config import BrokerConfig, Texts
from pykbroker.core.config.providers import PREFIX, PROVIDER_NAMES, resolve
from pykbroker.core.config.row import ConfigTable, Row
from pykbroker.core.config.table import BROKER, listener_row
from pykbroker.core.errors import ApiError


class Dynamic(NamedTuple):
    """Dynamic configs: those of all brokers (`cluster`), and those of one broker."""

    cluster: Texts = {}
    broker: Texts = {}

    def __repr__(self) -> str:
        return f"Dynamic({', '.join(sorted({**self.cluster, **self.broker}))})"


class LiveConfig:
    """A cache of the effective config under the latest dynamic configs.

    Invalid dynamic values, which another version of Kafka may have left in the metadata, are ignored. If a config
    provider cannot be read, so are all values with variables.
    """

    def __init__(self, started: BrokerConfig) -> None:
        self.started = started
        self._last = Dynamic(), started

    def under(self, dynamic: Dynamic) -> BrokerConfig:
        """Return this broker's config with these dynamic configs."""
        if self._last[0] != dynamic:
            self._last = dynamic, self._make(dynamic)
        return self._last[1]

    def _make(self, dynamic: Dynamic) -> BrokerConfig:
        cluster, broker = (self._valid(texts) for texts in dynamic)
        try:
            return self.started.with_dynamic(cluster, broker)
        except ApiError:  # each value is valid, but together they contradict each other
            return self.started

    def _valid(self, texts: Texts) -> Texts:
        """Return the texts of a layer without invalid ones. As in Kafka, its own providers must make a value valid."""
        started, values = self.started, texts
        if started.sources is not None:
            try:
                values = resolve(texts, texts, started.sources)
                resolve(texts, {**started.static, **texts}, started.sources)
            except ApiError:
                texts = values = without_providers(texts)
        valid = valid_texts(BROKER, values)
        return {name: text for name, text in texts.items() if name in valid}


def without_providers(texts: Texts) -> Texts:
    """Return the texts without config providers, and without those that may have variables."""
    declared = PROVIDER_NAMES, PREFIX
    return {name: text for name, text in texts.items() if "${" not in text and not name.startswith(declared)}


def valid_texts(table: ConfigTable, texts: Texts) -> Texts:
    """Return the texts without invalid values. Configs that the table does not have are kept."""
    return {name: text for name, text in texts.items() if is_valid(table.get(name) or listener_row(name), text)}


def is_valid(row: Row | None, text: str) -> bool:
    """Whether the text is a valid value of the config. If the row is None, every text is valid."""
    if row is None:
        return True
    try:
        row.read(text)
    except ApiError:
        return False
    return True
