"""The security of `pykbroker cluster`: TLS and log-in of clients, and how its brokers know each other.

1. If clients use TLS or log in, brokers authenticate each other by mutual TLS at the listeners that only they use,
   also that of the controller. Their principals are super users, so that an authorizer refuses them nothing.
2. One authority signs the certificates of all brokers. It is in the directory of the first broker, as if that had been
   started by `pykbroker start --tls auto`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from socket import gethostname

import msgspec

from pykbroker.core.address import Address
from pykbroker.core.config.authorizer_configs import SUPER_USERS, authorizer_settings
from pykbroker.core.config.java_classes import AUTHORIZER, STANDARD_AUTHORIZER
from pykbroker.core.config.listener_configs import CLIENT_AUTH, listener_prefix
from pykbroker.core.config.listeners import (
    INTER_BROKER_NAME,
    INTER_BROKER_PROTOCOL,
    PROTOCOL_MAP,
    ListenerSettings,
    protocol_map,
)
from pykbroker.core.config.tls_settings import KEY_PASSWORD, KEYSTORE, PEM, TRUSTSTORE
from pykbroker.core.errors import ApiError
from pykbroker.core.security.own_certificates import AUTHORITY, hosts_of
from pykbroker.core.security.principal_mapping import RULES
from pykbroker.core.security.protocol import SecurityProtocol, protocol_of
from pykbroker.core.security.session import ANONYMOUS
from pykbroker.core.security.start_configs import (
    authorizer_configs,
    keystore_configs,
    log_in_configs,
    refusal_of_super_user,
)

BROKERS, CONTROLLERS = "INTERNAL", "CONTROLLER"
"""The names of the listeners that serve the other brokers, so that no limit on clients keeps a broker out."""


def certificate_name(node_id: int) -> str:
    """Return the name in the certificate of a broker."""
    return f"broker-{node_id}"


class ClusterSecurity(msgspec.Struct, frozen=True):
    """Whether clients use TLS, the names of the users who log in, and whether they may do only what ACLs allow."""

    has_tls: bool = False
    users: tuple[str, ...] = ()
    authorizes: bool = False

    @property
    def protocol(self) -> SecurityProtocol:
        """Return the protocol of the listeners for clients, which is also their name."""
        return protocol_of(has_tls=self.has_tls, has_users=bool(self.users))

    @property
    def listener(self) -> ListenerSettings:
        """Return the listener for clients, whose address its configs do not depend on."""
        return ListenerSettings(self.protocol.name, protocol=self.protocol)

    @property
    def has_certificates(self) -> bool:
        """Whether brokers authenticate each other by certificates."""
        return self.protocol is not SecurityProtocol.PLAINTEXT

    def refusal(self, configs: Mapping[str, str]) -> str | None:
        """Return why a cluster cannot have these configs, too, or None."""
        if self.authorizes and not self.users and not configs.get(SUPER_USERS):
            return (
                f"--authorize needs a super user, who may add ACLs: add --user NAME, or --set {SUPER_USERS}=User:NAME"
            )
        if (self.authorizes or AUTHORIZER in configs) and (reason := refusal_of_super_user(self.users)):
            return f"--user {reason}"
        if not self.has_certificates and (reason := self._refusal_of_brokers(configs)):
            return reason
        for config in (INTER_BROKER_NAME, INTER_BROKER_PROTOCOL) if self.has_certificates else ():
            if config in configs:
                return (
                    f"{config} and --tls or --user contradict each other: leave it out, and brokers use a"
                    " listener of their own with certificates"
                )
        for config in configs if self.has_certificates else ():
            if is_of_certificates(config):
                return (
                    f"{config} would replace the certificates by which brokers know each other: write"
                    f" {listener_prefix(self.protocol.name)}{config}, for clients alone"
                )
            for prefix in map(listener_prefix, (BROKERS, CONTROLLERS)):
                name = config.removeprefix(prefix)
                if name != config and (is_of_certificates(name) or name in (CLIENT_AUTH, RULES)):
                    return f"{config} contradicts the certificates by which brokers know each other: leave it out"
        return None

    def _refusal_of_brokers(self, configs: Mapping[str, str]) -> str | None:
        """Return why brokers without certificates have no right to act for the cluster, or None."""
        try:
            given = authorizer_settings({**configs, **(authorizer_configs(configs, ()) if self.authorizes else {})}, ())
        except ApiError as error:
            return str(error)
        if given is None or given.allows_without_acls or ANONYMOUS in given.super_users or PROTOCOL_MAP in configs:
            return None  # a map of protocols may let brokers log in
        return (
            "an authorizer refuses brokers that do not authenticate each other: add --user NAME or --tls auto, or --set"
            f" {SUPER_USERS}={ANONYMOUS}, which is everybody"
        )

    def hosts(self, addresses: Iterable[Address]) -> frozenset[str]:
        """Return the hosts by which clients and brokers reach a broker with these addresses."""
        return hosts_of(
            (ListenerSettings(BROKERS, each, None, SecurityProtocol.SSL) for each in addresses), gethostname()
        )

    def configs(self, given: Mapping[str, str], directory: str, of_authority: str, brokers: int) -> dict[str, str]:
        """Return the configs of a broker beside the `given` ones. Its directory has its certificate."""
        made = dict[str, str]()
        if self.has_certificates:
            made = {PROTOCOL_MAP: f"{protocol_map(given)},{BROKERS}:SSL,{CONTROLLERS}:SSL"}
            for listener in (BROKERS, CONTROLLERS):
                made |= mutual_tls_configs(listener, directory, of_authority)
        if self.has_tls:
            made |= keystore_configs(directory)
        if self.users:
            made |= log_in_configs(given, [self.listener])
        if self.authorizes or AUTHORIZER in given:
            of_brokers = range(1, brokers + 1) if self.has_certificates else ()
            supers = [*self.users[:1], *(f"CN={certificate_name(each)}" for each in of_brokers)]
            made |= {**authorizer_configs(given, supers), AUTHORIZER: given.get(AUTHORIZER, STANDARD_AUTHORIZER)}
        return made


def is_of_certificates(config: str) -> bool:
    """Whether a config, without a listener, is about a keystore or truststore."""
    return config.startswith((f"{KEYSTORE}.", f"{TRUSTSTORE}.")) or config == KEY_PASSWORD


def mutual_tls_configs(listener: str, directory: str, of_authority: str) -> dict[str, str]:
    """Return the configs of a listener at which only certificates of the authority are accepted."""
    configs = {
        **keystore_configs(directory),
        f"{TRUSTSTORE}.type": PEM,
        f"{TRUSTSTORE}.location": os.path.join(of_authority, AUTHORITY),
        CLIENT_AUTH: "required",
        RULES: "DEFAULT",
    }
    return {listener_prefix(listener) + config: text for config, text in configs.items()}
