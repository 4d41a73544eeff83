"""Closing a consumer of librdkafka, which may deadlock in C and then block the calling thread."""

from __future__ import annotations

import threading

from confluent_kafka import Consumer

LEAVING_S_MAX = 3


def leave(consumer: Consumer) -> None:
    """Close the consumer, or abandon it if the close hangs.

    A rebalance that arrives during the close is sent to a thread that has already ended (librdkafka's issue 4041).
    """
    closing = threading.Thread(target=consumer.close, daemon=True)
    closing.start()
    closing.join(LEAVING_S_MAX)
