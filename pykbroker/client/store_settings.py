"""The settings of the stores of TLS, as errors of outgoing connections name them."""

from __future__ import annotations

from typing import NamedTuple


class StoreSettings(NamedTuple):
    """The names of the settings: by default, those of clients."""

    truststore: str = "ssl_truststore_location or ssl_cafile"
    keystore: str = "ssl_keystore_location or ssl_certfile"
