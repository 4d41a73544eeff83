"""The client's side of SCRAM, with the test's own arithmetic."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode

from pykbroker.core.security.sasl.scram import ScramHash


def final(of: ScramHash, bare: str, first: bytes, password: str = "secret") -> bytes:
    """Return the final message of a client whose first message had `bare`, to the server's message `first`."""
    fields = dict(part.split("=", 1) for part in first.decode().split(","))
    salted = hashlib.pbkdf2_hmac(of.hash, password.encode(), b64decode(fields["s"]), int(fields["i"]))
    client_key = hmac.digest(salted, b"Client Key", of.hash)
    without_proof = f"c=biws,r={fields['r']}"
    signed = f"{bare},{first.decode()},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(of.hash, client_key).digest(), signed, of.hash)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return f"{without_proof},p=".encode() + b64encode(proof)
