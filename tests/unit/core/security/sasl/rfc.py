"""The exchanges that are the examples of the RFCs of SCRAM."""

from __future__ import annotations

import pytest

from pykbroker.core.security.sasl.scram import SHA_256, ScramHash

SHA_1 = ScramHash("SCRAM-SHA-1", "sha1", 0, 20)

of_the_rfcs = pytest.mark.parametrize(
    ("of", "salt", "nonces", "proof", "signature"),
    [
        (
            SHA_1,  # RFC 5802, section 5
            "QSXCR+Q6sek8bf92",
            ("fyko+d2lbbFgONRv9qkxdawL", "3rfcNHYJY1ZVvWVs7j"),
            "v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
            "rmF9pqV8S7suAoZWja4dJRkFsKQ=",
        ),
        (
            SHA_256,  # RFC 7677, section 3
            "W22ZaJ0SNY7soEsUEjb6gQ==",
            ("rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"),
            "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        ),
    ],
)
