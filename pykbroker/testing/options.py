"""The options of a broker for tests: checked before a broker starts, and turned into the broker's settings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pykbroker.core.config.config import BrokerConfig
    from pykbroker.core.config.listeners import ListenerSettings
    from pykbroker.core.errors import StartError
    from pykbroker.core.settings import Settings
    from pykbroker.testing.log_in_settings import LogInSettings

HOST = "127.0.0.1"
OWN_LISTENER, OWN_USER = "FIXTURE", "ANONYMOUS"
"""The listener of a secured broker for the fixture and other brokers, and the user who they are without a log-in."""
INSTEAD = {
    "listeners": "write port= for a port on 127.0.0.1",
    "advertised.listeners": "let clients use the address that they connected to",
    "log.dirs": "write data_dir= for a directory that keeps the data",
    "log.dir": "write data_dir= for a directory that keeps the data",
}
"""Broker config that a broker for tests does not have -> what to do instead."""

ConfigValue = str | int | float | bool

START_TIMEOUT_S = 30
START_TIMEOUT_S_MAX = 86_400


@dataclass(frozen=True)
class BrokerOptions:
    """The options of a broker for tests, as `checked_options` returns them."""

    port: int = 0
    topics: Mapping[str, int] = field(default_factory=dict)
    """Topic name -> number of partitions, or `BROKER_DEFAULT`."""
    configs: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The static configs, those of PYKBROKER_* variables included."""
    data_dir: str | None = None
    """The directory that keeps the data. None stands for a temporary directory."""
    process: bool = False
    controller_port: int | None = None
    """The port of the controller's listener, 0 for any free one. None stands for a broker without other nodes."""
    controller: str | None = None
    """The address of the controller if it runs in another process."""
    tls: bool = False
    """Whether clients use TLS, with a certificate that the broker makes."""
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The passwords by name of the users who log in. Without any, nobody does."""
    authority: str | None = None
    """The directory of the authority that signs the certificate, by default that of the data."""
    authorize: bool = False
    """Whether users may do only what ACLs allow. The first one is a super user."""
    start_timeout: float | None = START_TIMEOUT_S
    """The longest start in seconds. None stands for no limit."""

    @property
    def has_other_nodes(self) -> bool:
        """Whether the broker is a member of a cluster of several brokers."""
        return self.controller is not None or self.controller_port is not None

    def settings(self, directory: str) -> Settings:
        """Return the settings of a broker whose data is in this directory."""
        from pykbroker.core.address import Address, parse_address
        from pykbroker.core.config.listeners import ListenerSettings
        from pykbroker.core.new_topic import NewTopic
        from pykbroker.core.new_user import NewUser
        from pykbroker.core.security.secret import Secret
        from pykbroker.core.settings import Settings

        listeners = self._listeners()
        of_controllers: tuple[ListenerSettings, ...] = ()
        if self.controller_port is not None:
            of_controllers = (ListenerSettings("CONTROLLER", Address(HOST, self.controller_port)),)
        texts = {**self.configs, "log.dirs": directory}
        if self.is_secured:
            texts = self._secured(texts, directory, listeners, of_controllers)
        return Settings(
            broker_config(texts),
            (directory,),
            listeners=listeners,
            inter_broker_listener=listeners[-1].name,
            controller_listeners=of_controllers,
            quorum=() if self.controller is None else (parse_address(self.controller),),
            memory=self.data_dir is None,
            topics=tuple(NewTopic(name, partitions) for name, partitions in self.topics.items()),
            users=tuple(NewUser(name, Secret(password)) for name, password in self.users.items()),
        )

    @property
    def is_secured(self) -> bool:
        """Whether clients use TLS or log in."""
        return self.tls or bool(self.users)

    def log_in_settings(self, bootstrap: str, authority: str) -> LogInSettings:
        """Return the settings by which clients log in. `authority` is the directory of the authority."""
        from pykbroker.core.security.own_certificates import AUTHORITY
        from pykbroker.testing.log_in_settings import LogInSettings

        return LogInSettings(bootstrap, f"{authority}/{AUTHORITY}" if self.tls else None, self.users)

    def _listeners(self) -> tuple[ListenerSettings, ...]:
        """Return the listener for clients, and that of a secured broker for the fixture and for other brokers."""
        from pykbroker.core.address import Address
        from pykbroker.core.config.listeners import ListenerSettings
        from pykbroker.core.security.protocol import protocol_of

        protocol = protocol_of(has_tls=self.tls, has_users=bool(self.users))
        of_clients = ListenerSettings(protocol.name, Address(HOST, self.port), None, protocol)
        return (of_clients, ListenerSettings(OWN_LISTENER, Address(HOST, 0))) if self.is_secured else (of_clients,)

    def _secured(
        self,
        texts: Mapping[str, str],
        directory: str,
        listeners: Sequence[ListenerSettings],
        of_controllers: Sequence[ListenerSettings],
    ) -> dict[str, str]:
        """Return the configs of a secured broker. Make its certificate, unless an earlier start has made it."""
        import socket
        import time

        from pykbroker.core.config.listeners import with_listeners
        from pykbroker.core.security.own_certificates import hosts_of
        from pykbroker.core.security.start_configs import authorizer_configs, keystore_configs, log_in_configs

        found = with_listeners(texts, listeners, of_controllers)
        if self.tls:
            from pykbroker.tls.own_certificates import keep_certificates

            hosts = hosts_of(listeners, socket.gethostname())
            keep_certificates(directory, hosts, time.time(), authority=self.authority)
            found |= keystore_configs(directory)
        if self.users:
            found |= log_in_configs(found, listeners)
        if self.authorize:
            found |= authorizer_configs(found, [*list(self.users)[:1], OWN_USER])
        return found

    def waited_for(self, directory: str) -> str:
        """Return what a start waits for once the broker's modules are imported."""
        logs = f"the logs and the metadata in {directory}"
        return logs if self.controller is None else f"{logs}, or the controller on {self.controller}"

    def at(self, port: int) -> BrokerOptions:
        """Return the options for a restart: with this port, and without topics, which the data directory has."""
        return replace(self, port=port, topics={})


def late_start(options: BrokerOptions, broker: str, waited_for: str) -> StartError:
    """Return the error of a start that has taken longer than `start_timeout`."""
    from pykbroker.core.errors import StartError

    return StartError(
        f"{broker} has not started within {options.start_timeout:g} s: it waits for {waited_for}. If the machine is"
        " busy, set the option start_timeout to more seconds"
    )


def checked_options(
    port: Any,
    topics: Any,
    configs: Any,
    data_dir: str | os.PathLike[str] | None,
    process: Any,
    start_timeout: Any,
    environ: Mapping[str, str],
    *,
    tls: Any = False,
    users: Any = None,
    authorize: Any = False,
) -> BrokerOptions:
    """Return the options of `running_broker`. StartError: one sentence that names the option and what to write."""
    from pykbroker.core.address import PORT_MAX
    from pykbroker.core.config.environment import own_configs
    from pykbroker.core.errors import StartError

    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= PORT_MAX:
        raise StartError(f"port is {port!r}: write a number up to {PORT_MAX}, or 0 for any free port")
    if not isinstance(process, bool):
        raise StartError(f"process is {process!r}: write True for a child process, or False for a thread")
    check_start_timeout(start_timeout)
    variables = own_configs(environ)
    for name in INSTEAD:
        if name in variables.texts:
            raise StartError(f"{variables.place(name)} cannot be set in tests: unset it, and {INSTEAD[name]}")
    texts = config_texts(configs)
    try:
        broker_config({**variables.texts, **texts})
    except StartError as error:
        raise StartError(variables.blamed(str(error), texts)) from None
    return BrokerOptions(
        port,
        numbers_of_partitions(topics),
        {**variables.texts, **texts},
        data_directory(data_dir),
        process,
        tls=tls,
        users=checked_users(tls, users, authorize),
        authorize=authorize,
        start_timeout=start_timeout,
    )


def checked_users(tls: Any, users: Any, authorize: Any) -> dict[str, str]:
    """Return the passwords of users by name. StartError: an option about security is invalid."""
    from pykbroker.core.errors import StartError
    from pykbroker.core.new_user import NAME_CHARACTERS_MAX

    for name, value in (("tls", tls), ("authorize", authorize)):
        if not isinstance(value, bool):
            raise StartError(f"{name} is {value!r}: write True or False")
    if users is not None and not isinstance(users, Mapping):
        raise StartError("users is no dict: write one of names and passwords, such as {'alice': 'secret'}")
    found = dict(users or {})
    for name, password in found.items():
        if not isinstance(name, str) or not isinstance(password, str) or not (name and name.isascii() and password):
            raise StartError(f"users: {name!r} is no name in ASCII, or has no password: write {{'alice': 'secret'}}")
        if len(name) > NAME_CHARACTERS_MAX:
            raise StartError(f"users: a name has at most {NAME_CHARACTERS_MAX:,} characters: write a shorter one")
    if authorize:
        from pykbroker.core.security.start_configs import refusal_of_super_user

        if not found:
            raise StartError("authorize=True needs a user, who may do everything: write users={'alice': 'secret'}, too")
        if reason := refusal_of_super_user(found):
            raise StartError(f"users: {reason}")
    return found


def check_start_timeout(seconds: Any) -> None:
    """Check the limit of a start. StartError: it is no number of seconds."""
    from pykbroker.core.errors import StartError

    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds <= START_TIMEOUT_S_MAX:
        raise StartError(f"start_timeout is {seconds!r}: write the seconds that a start may take, such as 120")


def broker_config(texts: Mapping[str, str]) -> BrokerConfig:
    """Return the config of one broker with these configs. StartError: a value is invalid."""
    from pykbroker.core.config.config import BrokerConfig
    from pykbroker.core.config.providers import resolve
    from pykbroker.core.config.table import ONE_BROKER
    from pykbroker.core.errors import ApiError, StartError
    from pykbroker.world.config_sources import SystemConfigSources

    written, sources = {**ONE_BROKER, **texts}, SystemConfigSources()
    try:
        return BrokerConfig.from_mapping(resolve(written, written, sources), sources, written)
    except ApiError as error:
        raise StartError(str(error)) from None


def config_texts(configs: Any) -> dict[str, str]:
    """Return broker configs as texts. StartError: a name is no config; the message suggests the nearest one."""
    from pykbroker.core.config.config import known
    from pykbroker.core.config.names import unknown_config
    from pykbroker.core.errors import StartError

    if configs is not None and not isinstance(configs, Mapping):
        raise StartError(f"configs is {configs!r}: write a dict such as {{'num.partitions': 3}}")
    texts = values_as_texts(configs or {})
    for name in texts:
        if not known(name):
            raise StartError(f"configs: {unknown_config(name)}")
        if name in INSTEAD:
            raise StartError(f"configs: {name} cannot be set in tests: {INSTEAD[name]}")
    return texts


def values_as_texts(configs: Mapping[Any, Any]) -> dict[str, str]:
    """Return the values of configs as Kafka writes them: True as "true". StartError: a value is of another type."""
    from pykbroker.core.errors import StartError

    for name, value in configs.items():
        if not isinstance(name, str) or not isinstance(value, str | int | float):
            raise StartError(f"configs: {name!r} is {value!r}: write Kafka's name, and a text, number or boolean")
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in configs.items()}


def numbers_of_partitions(topics: Any) -> dict[str, int]:
    """Return topic name -> number of partitions, or `BROKER_DEFAULT` (num.partitions) for None and in a list of names.

    StartError: a name or a number is invalid.
    """
    from pykbroker.core.errors import ApiError, StartError
    from pykbroker.core.names import check_topic_name
    from wire.sentinels import BROKER_DEFAULT

    if isinstance(topics, str | bytes) or not isinstance(topics, Iterable):
        raise StartError(f"topics is {topics!r}: write a list such as ['orders'], or a dict such as {{'orders': 3}}")
    pairs: list[tuple[Any, Any]] = (
        [*topics.items()] if isinstance(topics, Mapping) else [(name, None) for name in topics]
    )
    for name, partitions in pairs:
        is_number = isinstance(partitions, int) and not isinstance(partitions, bool) and partitions >= 1
        if partitions is not None and not is_number:
            raise StartError(f"topics: {name!r} has {partitions!r} partitions: write a number from 1")
        try:
            check_topic_name(name)
        except (ApiError, TypeError) as error:
            raise StartError(f"topics: {name!r} is no name ({error}): write ['orders'], or {{'orders': 3}}") from None
    if len(dict(pairs)) < len(pairs):
        raise StartError("topics has a name twice: write a dict such as {'orders': 3} for more partitions")
    return {name: partitions or BROKER_DEFAULT for name, partitions in pairs}


def data_directory(path: str | os.PathLike[str] | None) -> str | None:
    """Return the absolute path of an existing directory, or None. StartError: it cannot be used for data."""
    from pykbroker.core.errors import StartError

    if path is None:
        return None
    whole = os.path.abspath(path)
    try:
        os.makedirs(whole, exist_ok=True)
    except OSError as error:
        raise StartError(
            f"data_dir: cannot create {whole} ({error.strerror}): name a directory that this user can write"
        ) from None
    if not os.access(whole, os.R_OK | os.W_OK | os.X_OK):
        raise StartError(f"data_dir: this user cannot write {whole}: change its mode, or name another directory")
    return whole
