"""Turns the command line and the config file into the `Settings` of a broker."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import click

from pykbroker.cli.data_dirs import default_data_dir
from pykbroker.cli.parameters import Address
from pykbroker.cli.server_properties import ServerProperties, advertised_address, listening_address, read_properties
from pykbroker.core.config.config import BrokerConfig, known
from pykbroker.core.config.table import BROKER, ONE_BROKER, TOPIC_SYNONYMS
from pykbroker.core.errors import ApiError
from pykbroker.core.settings import Settings

DEFAULT_ADDRESS = Address("127.0.0.1", 9092)


@dataclass(frozen=True)
class Options:
    """The options of `pykbroker start`, as given."""

    listen: Address | None = None
    advertise: Address | None = None
    data_dir: str | None = None
    memory: bool = False
    topics: tuple[tuple[str, int], ...] = ()
    configs: Mapping[str, str] = field(default_factory=dict)
    file: str | None = None

    def settings(self, temporary_dir: str | None = None) -> Settings:
        """Return the settings of the broker. `temporary_dir` holds the data with --memory.

        click.UsageError or StartError: the options or the file are invalid.
        """
        texts = self._texts()
        listen = self.listen or listening_address(texts) or DEFAULT_ADDRESS
        advertise = self.advertise or (None if self.listen else advertised_address(texts))
        data_dirs = self._data_dirs(texts, temporary_dir)
        texts["listeners"] = f"PLAINTEXT://{listen}"
        texts["log.dirs"] = ",".join(data_dirs)
        texts.pop("advertised.listeners", None)
        if advertise:
            texts["advertised.listeners"] = f"PLAINTEXT://{advertise}"
        try:
            config = BrokerConfig.from_mapping(texts)
        except ApiError as error:
            raise click.UsageError(self._blamed(str(error))) from None
        return Settings(
            config,
            data_dirs,
            listen_host=listen.host,
            listen_port=listen.port,
            advertise_host=advertise and advertise.host,
            advertise_port=advertise and advertise.port,
            memory=self.memory,
            topics=self.topics,
        )

    def without_effect(self) -> Iterator[str]:
        """Yield a sentence for each unknown config in the file. They do not prevent a start, as in Kafka."""
        for name in self._file.texts:
            if not known(name):
                yield f"{self._file.place(name)}: {unknown_config(name)} It has no effect."

    @cached_property
    def _file(self) -> ServerProperties:
        return read_properties(self.file) if self.file else ServerProperties()

    def _blamed(self, reason: str) -> str:
        """Return the reason, preceded by FILE:LINE if it names a config of the file."""
        words = reason.replace(":", " ").split()
        named = [name for name in self._file.texts if name not in self.configs and name in words]
        return f"{self._file.place(named[0])}: {reason}" if named else reason

    def _texts(self) -> dict[str, str]:
        for name in self.configs:
            if not known(name):
                raise click.BadParameter(unknown_config(name), param_hint="'--set'")
        return {**(self._file.texts if self.file else ONE_BROKER), **self.configs}

    def _data_dirs(self, texts: Mapping[str, str], temporary_dir: str | None) -> tuple[str, ...]:
        if self.memory:
            if self.data_dir:
                raise click.UsageError("--memory and --data-dir contradict each other: choose one of them")
            if temporary_dir is None:
                raise ValueError("--memory requires a temporary directory")
            return (temporary_dir,)
        if self.data_dir:
            return (os.path.abspath(self.data_dir),)
        named = texts.get("log.dirs") or texts.get("log.dir")
        if named:
            return tuple(os.path.abspath(each.strip()) for each in named.split(",") if each.strip())
        return (default_data_dir(),)


def unknown_config(name: str) -> str:
    """Return a sentence that suggests the nearest known name."""
    if name in TOPIC_SYNONYMS:
        return f"{name} is a config of topics; for all topics of this broker it is called {TOPIC_SYNONYMS[name][0]}."
    nearest = difflib.get_close_matches(name, BROKER, n=1)
    return f"There is no broker config {name}" + (f"; did you mean {nearest[0]}?" if nearest else ".")
