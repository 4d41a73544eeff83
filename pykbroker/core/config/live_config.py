"""The config of a running broker: what it was started with, under what it has been told since."""

from __future__ import annotations

from typing import NamedTuple

from pykbroker.core.config.config import BrokerConfig, Texts
from pykbroker.core.config.row import ConfigTable, Row
from pykbroker.core.config.table import BROKER
from pykbroker.core.errors import ApiError


class Dynamic(NamedTuple):
    """What the metadata says for all brokers, and for one of them alone."""

    cluster: Texts = {}
    broker: Texts = {}


class LiveConfig:
    """Answers what holds under the metadata of the moment, and remembers the last answer.

    Values that this broker cannot take, which another version of Kafka may have left in the metadata, do not count.
    """

    def __init__(self, started: BrokerConfig) -> None:
        self.started = started
        self._last = Dynamic(), started

    def under(self, dynamic: Dynamic) -> BrokerConfig:
        """The config of this broker with these dynamic ones."""
        if self._last[0] != dynamic:
            self._last = dynamic, self._make(dynamic)
        return self._last[1]

    def _make(self, dynamic: Dynamic) -> BrokerConfig:
        cluster, broker = (readable(BROKER, texts) for texts in dynamic)
        try:
            return self.started.with_dynamic(cluster, broker)
        except ApiError:  # each value is one that can be, and together they cannot
            return self.started


def readable(table: ConfigTable, texts: Texts) -> Texts:
    """Without values that cannot be; what the table does not know is left in."""
    return {name: text for name, text in texts.items() if name not in table or can_be(table[name], text)}


def can_be(row: Row, text: str) -> bool:
    """Whether a config takes this value."""
    try:
        row.read(text)
    except ApiError:
        return False
    return True
