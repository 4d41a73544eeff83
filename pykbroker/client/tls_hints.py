"""The hints of errors of TLS: the settings that the owner of a connection has, and how it chooses its peers."""

from __future__ import annotations

from typing import NamedTuple


class TlsHints(NamedTuple):
    """The names of the settings of the stores, and two sentences. The defaults are for clients."""

    truststore: str = "ssl_truststore_location or ssl_cafile"
    keystore: str = "ssl_keystore_location or ssl_certfile"
    host: str = "connect to a name that the certificate has"
    """The hint for a certificate of another host."""
    protocol: str = "connect to its listener with TLS, or without TLS to this one"
    """The hint for a listener without TLS."""
