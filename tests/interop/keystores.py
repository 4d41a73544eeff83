"""Keystores and a truststore in PEM, which brokers and clients of pykbroker, of Java and of librdkafka can read."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

CURVE = trustme.KeyType.ECDSA


class Keystores:
    """The stores of one authority in a directory. All certificates are for 127.0.0.1."""

    def __init__(self, directory: Path) -> None:
        self._authority, self._directory = trustme.CA(key_type=CURVE), directory
        self.truststore = directory / "ca.pem"
        self._authority.cert_pem.write_to_path(self.truststore)

    def keystore(self, name: str) -> Path:
        """Return the keystore of a user or a node with this name, which is written at the first call."""
        path = self._directory / f"{name}.pem"
        if not path.exists():
            issued = self._authority.issue_cert("127.0.0.1", common_name=name, key_type=CURVE)
            key = load_pem_private_key(issued.private_key_pem.bytes(), None)
            own = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())  # Java reads no other form
            path.write_bytes(own + b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        return path

    def settings(self, name: str) -> tuple[str, ...]:
        """Return the settings of the stores of a node."""
        return (
            "ssl.keystore.type=PEM",
            f"ssl.keystore.location={self.keystore(name)}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={self.truststore}",
        )
