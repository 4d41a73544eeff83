"""Bounds that no config sets and that several packages share, each with its unit."""

from __future__ import annotations

REQUEST_BYTES_MAX = 100 * 1024 * 1024
"""Kafka's default of `socket.request.max.bytes`. It also bounds responses from other brokers."""
