"""The settings of SASL on one listener, from its configs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from pykbroker.core.config.config import Texts
from pykbroker.core.config.host_counts import is_name
from pykbroker.core.config.listener_configs import ListenerConfigs, listener_prefix
from pykbroker.core.config.listeners import ListenerSettings
from pykbroker.core.errors import StartError
from pykbroker.core.ip_address import parse_ip
from pykbroker.core.security.sasl.jaas import LoginModule, parse_jaas
from pykbroker.core.security.sasl.mechanism import Mechanism
from pykbroker.core.security.sasl.plain import PLAIN, USER_OPTION, Plain, plain_users
from pykbroker.core.security.sasl.plain_by_scram import PlainByScram
from pykbroker.core.security.sasl.scram import SCRAM_HASHES, Scram, ScramCredential, ScramHash, UnknownUsers
from pykbroker.core.security.secret import Secret

LOCALHOST = "localhost"
MECHANISMS = (PLAIN, *SCRAM_HASHES)
ENABLED, JAAS = "sasl.enabled.mechanisms", "sasl.jaas.config"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SCRAM_USERS = "scram_users"
"""The option of PLAIN's login module, which Kafka ignores, for PLAIN with the users of SCRAM."""
EXAMPLE = f'{PLAIN_MODULE} required user_alice="secret";'


class SaslSettings(msgspec.Struct, frozen=True):
    """The settings of SASL on one listener. `users` are those of PLAIN, or None if they are those of SCRAM.

    `reauth_ms` is `connections.max.reauth.ms` by mechanism. `receive_bytes_max` is the maximum size of a request before
    the log-in is complete, and `failure_delay_ms` the delay before the response to a failed log-in.
    """

    enabled: tuple[str, ...]
    users: Mapping[str, Secret] | None
    reauth_ms: Mapping[str, int]
    receive_bytes_max: int
    failure_delay_ms: int

    def mechanisms(
        self,
        credential_of: Callable[[ScramHash, str], ScramCredential | None],
        unknown: Callable[[], UnknownUsers],
        key: bytes,
    ) -> dict[str, Mechanism]:
        """Return the enabled mechanisms by name. SCRAM asks `credential_of` for that of a user.

        `unknown` returns what stands for the credentials of all others. `key` is random.
        """
        found: dict[str, Mechanism] = {}
        for name in self.enabled:
            if name != PLAIN:
                found[name] = scram(SCRAM_HASHES[name], credential_of, unknown)
            elif self.users is not None:
                found[name] = Plain(self.users)
            else:
                found[name] = PlainByScram(credential_of, unknown, key)
        return found


def scram(
    of: ScramHash,
    credential_of: Callable[[ScramHash, str], ScramCredential | None],
    unknown: Callable[[], UnknownUsers],
) -> Scram:
    """Return the SCRAM mechanism with this hash function."""
    return Scram(of, lambda user: credential_of(of, user), unknown)


def sasl_settings(texts: Texts, listener: ListenerSettings) -> SaslSettings:
    """Return the settings of a listener with SASL. Raise StartError if a config is wrong, or a mechanism is unknown."""
    configs = ListenerConfigs(texts, listener)
    enabled = configs.get("sasl.enabled.mechanisms")
    assert isinstance(enabled, tuple)
    unknown = [name for name in enabled if name not in MECHANISMS]
    if unknown or not enabled:
        found = f"has {', '.join(unknown)}" if unknown else "is empty"
        raise StartError(
            f"{ENABLED} of the listener {listener.name} {found}, and pykbroker has {', '.join(MECHANISMS)}: write"
            f" {listener_prefix(listener.name)}{ENABLED}=SCRAM-SHA-256 or the like"
        )
    modules = {name: login_module(configs, listener.name, name) for name in enabled}
    plain = modules.get(PLAIN)
    reauth_ms = {name: configs.get("connections.max.reauth.ms", name) for name in enabled}
    return SaslSettings(
        enabled,
        users_of(plain, listener.name) if plain is not None else {},
        reauth_ms,  # type: ignore[arg-type]  # the config is of type LONG
        configs.get("sasl.server.max.receive.size"),  # type: ignore[arg-type]
        configs.get("connection.failed.authentication.delay.ms"),  # type: ignore[arg-type]
    )


def users_of(module: LoginModule, listener: str) -> Mapping[str, Secret] | None:
    """Return the users of PLAIN's login module, or None if they are those of SCRAM. Raise StartError if it has both."""
    users = plain_users(module.options)
    if SCRAM_USERS not in module.options or module.options[SCRAM_USERS].reveal().lower() != "true":
        return users
    if users:
        raise StartError(
            f"{listener_prefix(listener, PLAIN)}{JAAS} has both {SCRAM_USERS} and {USER_OPTION}NAME: remove one of them"
        )
    return None


def login_module(configs: ListenerConfigs, listener: str, mechanism: str) -> LoginModule | None:
    """Return the login module of a mechanism, or None for SCRAM without one: it needs no option.

    Raise StartError if PLAIN has none, or the line is not that of the mechanism.
    """
    config = listener_prefix(listener, mechanism) + JAAS
    line = configs.text("sasl.jaas.config", mechanism)
    needed = PLAIN_MODULE if mechanism == PLAIN else SCRAM_MODULE
    if line is None:
        if mechanism == PLAIN:
            raise StartError(f"{config} is missing, which has the users of PLAIN: write {config}={EXAMPLE}")
        return None
    try:
        module = parse_jaas(line)
    except ValueError as error:
        raise StartError(f"{config}: {error}") from None
    if module.name != needed:
        raise StartError(
            f"{config} names the class {module.name}, which pykbroker cannot load: write {needed} required …;"
        )
    return module


def sends_readable_passwords(settings: SaslSettings, listener: ListenerSettings) -> bool:
    """Whether clients send passwords through a network on which others may read them."""
    if PLAIN not in settings.enabled or listener.protocol.has_tls:
        return False
    host = listener.address.host
    return host != LOCALHOST if is_name(host) else not parse_ip(host).is_loopback


def sasl_listeners(texts: Texts, listeners: Iterable[ListenerSettings]) -> dict[str, SaslSettings]:
    """Return the settings of all listeners with SASL, by name. Raise StartError as `sasl_settings` does."""
    return {each.name: sasl_settings(texts, each) for each in listeners if each.protocol.has_sasl}
