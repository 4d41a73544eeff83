"""The effective config of a running broker: the static config, overridden by the dynamic configs of the metadata."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from pykbroker.core.config.config import BrokerConfig, Texts
from pykbroker.core.config.providers import VARIABLE_BEGIN, may_have_variables, resolve
from pykbroker.core.config.row import ConfigTable, Row
from pykbroker.core.config.table import BROKER, listener_row
from pykbroker.core.errors import ApiError

Variables = dict[tuple[str, str], str]
"""The values of configs with variables, by the name of the config and the text that has the variables."""


class Dynamic(NamedTuple):
    """Dynamic configs: those of all brokers (`cluster`), and those of one broker."""

    cluster: Texts = {}
    broker: Texts = {}

    def __repr__(self) -> str:
        return f"Dynamic({', '.join(sorted({**self.cluster, **self.broker}))})"


class LiveConfig:
    """A cache of the effective config under the latest dynamic configs.

    Invalid dynamic values, which another version of Kafka may have left in the metadata, are ignored. So are values
    with variables of config providers until `read` has found what the variables stand for: only `read` waits for files.
    """

    def __init__(self, started: BrokerConfig) -> None:
        self.started = replace(started, sources=None)
        self.sources = started.sources
        """The sources of config providers, for callers that may wait for files."""
        self._last = Dynamic(), self.started
        self._variables: Variables = {}

    def under(self, dynamic: Dynamic) -> BrokerConfig:
        """Return this broker's config with these dynamic configs."""
        if self._last[0] != dynamic:
            self._last = dynamic, self._make(dynamic)
        return self._last[1]

    def must_read(self, dynamic: Dynamic) -> bool:
        """Whether dynamic configs may have variables of config providers."""
        return self.sources is not None and may_have_variables(*dynamic)

    def read(self, dynamic: Dynamic) -> Variables:
        """Return the values of dynamic configs with variables, in any thread.

        As in Kafka, the providers of a layer must make its values valid. Raise ApiError INVALID_CONFIG if a provider
        cannot be read.
        """
        assert self.sources is not None
        declared = {**self.started.static, **dynamic.cluster, **dynamic.broker}
        found: Variables = {}
        for texts in dynamic:
            own = valid_texts(BROKER, resolve(texts, texts, self.sources))
            values = resolve({name: texts[name] for name in own}, declared, self.sources)
            found |= {(name, texts[name]): text for name, text in values.items() if VARIABLE_BEGIN in texts[name]}
        return found

    def use(self, variables: Variables) -> None:
        """Use these values from now on."""
        if self._variables != variables:
            self._variables, self._last = variables, (Dynamic(), self.started)

    def _make(self, dynamic: Dynamic) -> BrokerConfig:
        layers = [valid_texts(BROKER, self._resolved(texts)) for texts in dynamic]
        try:
            config = self.started.with_dynamic(*layers)
        except ApiError:  # each value is valid, but together they contradict each other
            return self.started
        # The layers of a config keep their variables.
        cluster, broker = ({name: texts[name] for name in own} for texts, own in zip(dynamic, layers, strict=True))
        return replace(config, cluster=cluster, broker=broker)

    def _resolved(self, texts: Texts) -> Texts:
        """Return the texts with the values of variables as they were read last. All other variables are left out."""
        if self.sources is None:
            return texts
        return {
            name: self._variables.get((name, text), text)
            for name, text in texts.items()
            if VARIABLE_BEGIN not in text or (name, text) in self._variables
        }


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
