"""The effective config of a running broker: the static config, overridden by the dynamic configs of the metadata."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from pykbroker.core.config.config import BrokerConfig, Texts
from pykbroker.core.config.providers import PREFIX, PROVIDER_NAMES, ConfigSources, resolve
from pykbroker.core.config.row import ConfigTable, Row
from pykbroker.core.config.table import BROKER, listener_row
from pykbroker.core.errors import ApiError

VARIABLE = "${"
"""The beginning of a variable of a config provider."""


def ignore(_reason: str) -> None:
    """Do nothing."""


class Dynamic(NamedTuple):
    """Dynamic configs: those of all brokers (`cluster`), and those of one broker."""

    cluster: Texts = {}
    broker: Texts = {}

    def __repr__(self) -> str:
        return f"Dynamic({', '.join(sorted({**self.cluster, **self.broker}))})"


class LiveConfig:
    """A cache of the effective config under the latest dynamic configs.

    Invalid dynamic values, which another version of Kafka may have left in the metadata, are ignored. If a config
    provider cannot be read, values with variables stay as they were when it was read last, and `report` is called with
    the reason, once.
    """

    def __init__(self, started: BrokerConfig, report: Callable[[str], None] = ignore) -> None:
        self.started, self._report = started, report
        self._last = Dynamic(), started
        self._read: dict[str, str] = {}
        """The values of configs with variables, as they were read last."""
        self._reported = ""

    def under(self, dynamic: Dynamic) -> BrokerConfig:
        """Return this broker's config with these dynamic configs."""
        if self._last[0] != dynamic:
            self._last = dynamic, self._make(dynamic)
        return self._last[1]

    def _make(self, dynamic: Dynamic) -> BrokerConfig:
        started, layers = self.started, None
        if started.sources is not None and any(VARIABLE in text for texts in dynamic for text in texts.values()):
            layers = self._resolved(dynamic, started.sources)
        if layers is None:  # no provider is to be read
            started, layers = replace(started, sources=None), [self._without_variables(texts) for texts in dynamic]
        try:
            config = started.with_dynamic(*layers)
        except ApiError:  # each value is valid, but together they contradict each other
            return self.started
        return replace(config, sources=self.started.sources)

    def _resolved(self, dynamic: Dynamic, sources: ConfigSources) -> list[Texts] | None:
        """Return the valid texts of the layers, and remember the values of their variables. Report what is unreadable.

        As in Kafka, the providers of a layer must make its values valid. Return None if a provider cannot be read.
        """
        both = {**dynamic.cluster, **dynamic.broker}
        try:
            own = [valid_texts(BROKER, resolve(texts, texts, sources)) for texts in dynamic]
            read = resolve(both, {**self.started.static, **both}, sources)
        except ApiError as error:
            if self._reported != str(error):
                self._reported = str(error)
                self._report(str(error))
            return None
        self._reported = ""
        self._read.update({name: text for name, text in read.items() if VARIABLE in both[name]})
        return [{name: texts[name] for name in valid} for texts, valid in zip(dynamic, own, strict=True)]

    def _without_variables(self, texts: Texts) -> Texts:
        """Return the valid texts of a layer, in which the values that were read last replace those with variables."""
        if self.started.sources is None:
            return valid_texts(BROKER, texts)
        read = {name: self._read[name] for name, text in texts.items() if VARIABLE in text and name in self._read}
        return valid_texts(BROKER, {**without_providers(texts), **read})


def without_providers(texts: Texts) -> Texts:
    """Return the texts without config providers, and without those that may have variables."""
    declared = PROVIDER_NAMES, PREFIX
    return {name: text for name, text in texts.items() if VARIABLE not in text and not name.startswith(declared)}


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
