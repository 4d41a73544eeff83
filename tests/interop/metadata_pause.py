"""The pause of kafka-python between two requests for metadata, for tests that use a client as an instrument."""

from __future__ import annotations

from typing import TypeVar

import kafka

ClientT = TypeVar("ClientT")
PAUSE_MS = 10


def without_pause(client: ClientT) -> ClientT:
    """Return a producer or consumer of kafka-python that asks for the metadata of its topics at once.

    Such a client otherwise pauses for 100 ms after its first request for metadata, which had no topics. None of its
    settings changes this pause. Any other client is returned as it is.
    """
    if isinstance(client, kafka.KafkaProducer):
        client._metadata.config["retry_backoff_ms"] = PAUSE_MS
    elif isinstance(client, kafka.KafkaConsumer):
        client._client.cluster.config["retry_backoff_ms"] = PAUSE_MS
    return client
