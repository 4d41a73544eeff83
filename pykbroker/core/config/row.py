"""A row of the config table: one config, its type, default, allowed values, and how it can change."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from pykbroker.core.config.type import Type, Value
from pykbroker.core.config.valid import Valid


class Update(Enum):
    """How a running broker takes a change: not at all, for itself alone, or for itself and as the cluster's default."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Row(NamedTuple):
    """One config. `internal` ones can be set, but are not shown."""

    name: str
    type: Type
    default: Value
    valid: Valid | None = None
    update: Update = Update.READ_ONLY
    internal: bool = False

    @property
    def sensitive(self) -> bool:
        """Its value is never shown."""
        return self.type is Type.PASSWORD

    def read(self, text: str) -> Value:
        """The typed and allowed value of `text`, else ApiError INVALID_CONFIG."""
        value = self.type.read(self.name, text)
        if self.valid is not None:
            self.valid.check(self.name, value)
        return value


ConfigTable = dict[str, Row]


def table(*rows: Row) -> ConfigTable:
    """Rows by name."""
    return {row.name: row for row in rows}
