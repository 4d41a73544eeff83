"""The log-in of a node at a listener of other nodes.

1. Brokers connect to each other at the inter-broker listener, and to controllers at the first of
   `controller.listener.names`. The configs that this node has for that listener, with its prefix first, are those of
   the connections, too.
2. A node logs in as the `username` of the login module, whose other options are for its own listener. Without it, a
   broker starts, as in Kafka, since it may be the only one; a broker of controllers that it cannot reach does not.

A function raises StartError if a config is wrong. Sources: ChannelBuilders, JaasContext, KafkaConfig and
NodeToControllerChannelManager of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import msgspec

from pykbroker.core.config.config import Texts
from pykbroker.core.config.listener_configs import ListenerConfigs, listener_prefix
from pykbroker.core.config.listeners import MECHANISM_AT_BROKERS, ListenerSettings
from pykbroker.core.errors import StartError
from pykbroker.core.security.sasl.settings import ENABLED, JAAS, MECHANISMS, login_module
from pykbroker.core.security.secret import Secret
from wire.error_codes import ErrorCode

USERNAME, PASSWORD = "username", "password"
EXAMPLE = f'{USERNAME}="…" {PASSWORD}="…"'


class PeerLogin(msgspec.Struct, frozen=True):
    """The log-in of this node at others. `config` names the login module, and `mechanism_config` the mechanism."""

    mechanism: str
    user: str
    password: Secret
    config: str
    mechanism_config: str
    lacks: str = ""
    """The reason why the node cannot log in, and what to do. It is empty for a node that can."""

    def advice(self, code: ErrorCode | None) -> str:
        """Return what to do about a log-in that another node has answered with this error."""
        if code == ErrorCode.SASL_AUTHENTICATION_FAILED:
            return (
                f": correct {USERNAME} and {PASSWORD} in {self.config}, or add the user {self.user} to the users of the"
                " other node"
            )
        if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            return f": set {self.mechanism_config} to one of them"
        return ""


def peer_login(texts: Texts, listener: ListenerSettings, mechanism_config: str) -> PeerLogin | None:
    """Return the log-in of this node at a listener of others, or None without SASL.

    `mechanism_config` names the config with the mechanism.
    """
    if not listener.protocol.has_sasl:
        return None
    name, configs = listener.name, ListenerConfigs(texts, listener)
    mechanism = str(configs.get(mechanism_config))
    if mechanism not in MECHANISMS:
        raise StartError(
            f"{mechanism_config}={mechanism}: nodes connect to the listener {name} by SASL, and pykbroker has"
            f" {', '.join(MECHANISMS)}: write {mechanism_config}={MECHANISMS[-1]} or the like"
        )
    enabled = configs.get(ENABLED)
    assert isinstance(enabled, tuple)
    if mechanism_config == MECHANISM_AT_BROKERS and mechanism not in enabled:
        raise StartError(
            f"{mechanism_config}={mechanism}, and {ENABLED} of the listener {name} has {', '.join(enabled)}: write one"
            " of these, or add it"
        )
    config, module = listener_prefix(name, mechanism) + JAAS, login_module(configs, name, mechanism)
    options = {} if module is None else module.options
    if missing := [option for option in (USERNAME, PASSWORD) if option not in options]:
        lacks = (
            f"{config} has no {' and no '.join(missing)}, with which this node logs in at other nodes: add {EXAMPLE} to"
            " the login module"
        )
        if mechanism_config != MECHANISM_AT_BROKERS:
            raise StartError(lacks)
        return PeerLogin(mechanism, "", Secret(""), config, mechanism_config, lacks)
    return PeerLogin(mechanism, options[USERNAME].reveal(), options[PASSWORD], config, mechanism_config)
