"""The bounds that no config sets and that more than one package keeps, each with its unit."""

from __future__ import annotations

KIB, MIB = 1024, 1024 * 1024

REQUEST_BYTES_MAX = 100 * MIB
"""Kafka's default of `socket.request.max.bytes`; answers are held to it, too."""

REQUEST_SILENCE_MS_MAX = 30_000
"""Without a byte, in the middle of a request."""
REQUEST_BYTES_PER_S_MIN = KIB
"""Averaged over REQUEST_SILENCE_MS_MAX since the request began."""

DECOMPRESSED_BYTES_MAX = 64 * MIB
DECOMPRESSED_TIMES_MAX = 16
"""Times `max.message.bytes`; the smaller of both bounds holds."""
OFF_LOOP_BYTES_MIN = 64 * KIB
"""Decompression and record checks of more than this leave the loop."""

LOOP_STEP_MS_COUNTED = 20
LOOP_STEP_MS_MAX = 200


def decompressed_bytes_max(message_bytes_max: int) -> int:
    """How large a batch may become, given `max.message.bytes` of its topic."""
    return min(DECOMPRESSED_TIMES_MAX * message_bytes_max, DECOMPRESSED_BYTES_MAX)
