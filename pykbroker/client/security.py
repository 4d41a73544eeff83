"""The settings for TLS, SASL and proxies, which this client refuses with a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SECURITY: Mapping[str, Any] = {
    "security_protocol": "PLAINTEXT",
    "ssl_context": None,
    "ssl_check_hostname": True,
    "ssl_cafile": None,
    "ssl_certfile": None,
    "ssl_keyfile": None,
    "ssl_crlfile": None,
    "ssl_password": None,
    "ssl_ciphers": None,
    "sasl_mechanism": None,
    "sasl_plain_username": None,
    "sasl_plain_password": None,
    "sasl_kerberos_name": None,
    "sasl_kerberos_service_name": "kafka",
    "sasl_kerberos_domain_name": None,
    "sasl_oauth_token_provider": None,
    "proxy_url": None,
    "socks5_proxy": None,
    "kafka_client": None,
}
"""The arguments for TLS, SASL, proxies and other networks, with the only value that is supported."""
PREFIXES = ("ssl_", "sasl_", "security_")


class InvalidSetting(ValueError):
    """The error of a setting that does not exist, has a value out of its range, or contradicts another setting."""


def without_security(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the other settings. Raise InvalidSetting for one of TLS, SASL or a proxy that is not at its default."""
    found = {}
    for name, value in given.items():
        if name not in SECURITY and not name.startswith(PREFIXES):
            found[name] = value
        elif name not in SECURITY or value != SECURITY[name]:
            raise InvalidSetting(
                f"{name}={value!r} is not supported: this client connects without TLS, SASL or proxy. "
                "Use the plaintext listener of the broker."
            )
    return found
