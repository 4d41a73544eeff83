"""The bounds that no config sets and that more than one package keeps, each with its unit."""

from __future__ import annotations

REQUEST_BYTES_MAX = 100 * 1024 * 1024
"""Kafka's default of `socket.request.max.bytes`; what a broker answers us is held to it, too."""
