"""The options of `pykbroker start`, which turn the command line and the config file into `Settings`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import click
import msgspec

from pykbroker.cli.start.data_dirs import OF_IMAGE, container_data_dir, default_data_dir
from pykbroker.cli.start.server_properties import ServerProperties, read_properties
from pykbroker.core.address import Address
from pykbroker.core.cluster_id import RequiredClusterId, required_cluster_id
from pykbroker.core.config.config import BrokerConfig, known
from pykbroker.core.config.container import container_configs
from pykbroker.core.config.environment import EnvironmentConfigs, own_configs
from pykbroker.core.config.listeners import (
    ADVERTISED,
    LISTEN,
    LISTENERS,
    LOCAL,
    PLAINTEXT,
    ListenerSettings,
    controller_listener_settings,
    derived_listeners,
    inter_broker_listener,
    listener_settings,
    with_listeners,
    without_stale,
)
from pykbroker.core.config.names import unknown_config
from pykbroker.core.config.providers import PREFIX, PROVIDER_NAMES, resolve, without_class
from pykbroker.core.config.quorum import check_only_controller, is_controller, quorum_addresses
from pykbroker.core.config.table import ONE_BROKER
from pykbroker.core.errors import ApiError, StartError
from pykbroker.core.new_topic import NewTopic
from pykbroker.core.new_user import NewUser
from pykbroker.core.security.protocol import SecurityProtocol, protocol_of
from pykbroker.core.settings import Settings
from pykbroker.world.config_sources import SystemConfigSources

CONTAINER, CONTAINER_ADVERTISED = "0.0.0.0:9092", "localhost:9092"
"""The addresses of the listener of a container whose variables name no listener, as in Apache Kafka's image.

With variables of another image, clients get the address that they connected to in place of localhost.
"""

NODE_ID, BROKER_ID = "node.id", "broker.id"
"""The config of a node's id and its older name, which may set it."""

MOUNTED_FILES = ("/mnt/shared/config/server.properties", "/bitnami/kafka/config/server.properties")
"""The places where compose files mount a server.properties for Apache's and for bitnami's image."""


class Options(msgspec.Struct, frozen=True, dict=True):
    """The options of `pykbroker start`, as given on the command line, and the environment variables."""

    listen: tuple[tuple[str, Address], ...] = ()
    advertise: tuple[tuple[str, Address], ...] = ()
    data_dir: str | None = None
    cluster_id: str | None = None
    memory: bool = False
    topics: tuple[NewTopic, ...] = ()
    configs: Mapping[str, str] = msgspec.field(default_factory=dict)
    file: str | None = None
    container: bool = False
    environ: Mapping[str, str] = msgspec.field(default_factory=dict)
    has_own_certificate: bool = False
    users: tuple[NewUser, ...] = ()
    authorizes: bool = False

    def __repr__(self) -> str:
        return f"Options({self.file or ''})"  # configs and variables may be passwords

    def settings(self, temporary_dir: str | None = None) -> Settings:
        """Return the settings of the broker. `temporary_dir` holds the data with --memory.

        click.UsageError or StartError: the options or the file are invalid.
        """
        written = self._texts()
        try:
            texts = resolve(written, written, SystemConfigSources())
        except ApiError as error:
            raise StartError(self._blamed(str(error))) from None
        try:
            leads = is_controller(texts)
            if leads:
                check_only_controller(texts)
            if self.container and LISTENERS not in texts:
                texts |= derived_listeners(texts)
            listeners = listener_settings(texts, self._listen, self.advertise)
            if self.has_own_certificate or self.users or self.authorizes:
                texts |= self._security_configs(texts, listeners)
            names = [listener.name for listener in listeners]
            of_controllers = controller_listener_settings(texts, self._listen) if leads else ()
            if self.listen and leads and not of_controllers:
                texts = without_stale(texts, names)
            inter_broker = inter_broker_listener(texts, names, LISTEN if self.listen else LISTENERS)
            quorum = () if leads else quorum_addresses(texts)
        except StartError as error:
            raise StartError(self._blamed(str(error))) from None
        data_dirs = self._data_dirs(texts, temporary_dir)
        texts = {**with_listeners(texts, listeners, of_controllers), "log.dirs": ",".join(data_dirs)}
        if self.has_own_certificate:
            from pykbroker.core.security.start_configs import keystore_configs

            texts |= keystore_configs(data_dirs[0])
        try:
            config = BrokerConfig.from_mapping(texts, SystemConfigSources(), written)
        except ApiError as error:
            raise click.UsageError(self._blamed(str(error))) from None
        return Settings(
            config,
            data_dirs,
            listeners=listeners,
            inter_broker_listener=inter_broker,
            controller_listeners=of_controllers,
            quorum=quorum,
            cluster_id=self._required_cluster_id(),
            memory=self.memory,
            discards=self.memory,
            topics=self._topics(),
            users=self.users,
        )

    def _security_configs(self, texts: Mapping[str, str], listeners: Sequence[ListenerSettings]) -> dict[str, str]:
        """Return the configs of --user and --authorize. Raise StartError if they or --tls have no effect."""
        # a start without these options imports nothing of them
        from pykbroker.cli.start.own_certificates import check_own_certificate
        from pykbroker.cli.start.users import check_has_log_in, check_has_super_user, usable_mechanisms
        from pykbroker.core.security.start_configs import authorizer_configs, log_in_configs, refusal_of_super_user

        made: dict[str, str] = {}
        if self.has_own_certificate:
            check_own_certificate(texts, listeners)
        if self.users:
            check_has_log_in(listeners)
            made |= log_in_configs(texts, listeners)
            usable_mechanisms({**texts, **made}, listeners)
        if self.authorizes:
            names = [user.name for user in self.users[:1]]
            if reason := refusal_of_super_user(names):
                raise StartError(f"--user {reason}")
            made |= authorizer_configs(texts, names)
            check_has_super_user({**texts, **made})
        return made

    def without_effect(self) -> Iterator[str]:
        """Yield a sentence for each unknown config in the file or the environment.

        As in Kafka, unknown configs do not prevent a start.
        """
        yield from self._environment.warnings
        for source in (self._file, self._environment):
            for name in source.texts:
                if not known(name):
                    yield f"{source.place(name)}: {unknown_config(name)} It has no effect."
            for provider in without_class(source.texts):
                yield (
                    f"{source.place(PROVIDER_NAMES)}: {PROVIDER_NAMES} has {provider!r}, and {PREFIX}{provider}.class"
                    " is not set. Its variables stay as they are: set the class, or correct the name"
                )

    def passed_over(self) -> tuple[str, ...]:
        """Return the environment variables of Kafka's container image that a broker without a JVM does not need."""
        return self._environment.passed_over

    @property
    def _protocol(self) -> SecurityProtocol:
        """Return the protocol of a listener without a name, which is also its name."""
        return protocol_of(has_tls=self.has_own_certificate, has_users=bool(self.users))

    @property
    def _listen(self) -> tuple[tuple[str, Address], ...]:
        return tuple((name or self._protocol.name, address) for name, address in self.listen)

    @cached_property
    def _path(self) -> str | None:
        """Return the path of the file, which in a container may be mounted where another image looks for it."""
        mounted = filter(os.path.exists, MOUNTED_FILES if self.container else ())
        return self.file or next(mounted, None)

    @cached_property
    def _file(self) -> ServerProperties:
        return read_properties(self._path) if self._path else ServerProperties()

    @cached_property
    def _environment(self) -> EnvironmentConfigs:
        return container_configs(self.environ) if self.container else own_configs(self.environ)

    def with_places(self, reason: str) -> str:
        """Return the reason of a failed start, followed by the place of each config that it names."""
        places = [f"{name} is from {place}" for name, place in self._places(reason).items()]
        return f"{reason} ({', '.join(places)})" if places else reason

    def _blamed(self, reason: str) -> str:
        """Return the reason, preceded by the place of the config that it names."""
        return ": ".join([*list(self._places(reason).values())[:1], reason])

    def _places(self, reason: str) -> dict[str, str]:
        """Return the variable or FILE:LINE of each config that a reason names, unless --set has replaced it."""
        words, found = {*reason.replace(":", " ").replace(",", " ").split()}, dict[str, str]()
        if NODE_ID in words and not any(NODE_ID in source.texts for source in (self._environment, self._file)):
            words.add(BROKER_ID)
        for source in (self._environment, self._file):
            for name in source.texts:
                if name not in self.configs and name in words:
                    found.setdefault(name, source.place(name))
        return found

    def _texts(self) -> dict[str, str]:
        for name in self.configs:
            if not known(name):
                raise click.BadParameter(unknown_config(name), param_hint="'--set'")
        texts = {**(self._file.texts if self._path else ONE_BROKER), **self._environment.texts, **self.configs}
        name = self._protocol.name
        if self.container and not {LISTENERS, ADVERTISED} & {*texts}:
            if not self._environment.container_address:
                texts[ADVERTISED] = f"{name}://{CONTAINER_ADVERTISED}"
            return {LISTENERS: f"{name}://{CONTAINER}", **texts}
        if self._protocol.name != PLAINTEXT and not self.container and not self.listen:
            return {LISTENERS: f"{name}://{LOCAL}", **texts}
        return texts

    def _required_cluster_id(self) -> RequiredClusterId | None:
        if self.cluster_id is None:
            return self._environment.cluster_id
        return required_cluster_id(self.cluster_id, "--cluster-id")

    def _topics(self) -> tuple[NewTopic, ...]:
        """Return the topics of the options and those of the variables that no option names."""
        named = {topic.name for topic in self.topics}
        return (*self.topics, *(topic for topic in self._environment.topics if topic.name not in named))

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
        if self.container and named == OF_IMAGE:
            named = self._file.texts.get("log.dirs") or texts.get("log.dir") or container_data_dir()
        if named:
            return tuple(os.path.abspath(each.strip()) for each in named.split(",") if each.strip())
        return (default_data_dir(),)
