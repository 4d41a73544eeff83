"""A row of the config table: one config with its type, default, allowed values and update mode."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from pykbroker.core.config.type import Type, Value
from pykbroker.core.config.valid import Valid


class Update(Enum):
    """The update mode of a broker config: read-only, per broker, or cluster-wide."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Row(NamedTuple):
    """A config. An `internal` config can be set, but DescribeConfigs omits it unless it is set."""

    name: str
    type: Type
    default: Value
    valid: Valid | None = None
    update: Update = Update.READ_ONLY
    internal: bool = False

    @property
    def sensitive(self) -> bool:
        """Whether the value is never returned to clients."""
        return self.type is Type.PASSWORD

    def read(self, text: str) -> Value:
        """Return the typed value of `text`. Raise ApiError INVALID_CONFIG if the value is not allowed."""
        value = self.type.read(self.name, text)
        if self.valid is not None:
            self.valid.check(self.name, value)
        return value


ConfigTable = dict[str, Row]


def table(*rows: Row) -> ConfigTable:
    """Return the rows by name."""
    return {row.name: row for row in rows}
