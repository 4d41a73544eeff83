"""How members of librdkafka leave: it may wait for itself for ever, and nothing can interrupt who waits with it."""

from __future__ import annotations

import threading

from confluent_kafka import Consumer

LEAVING_S_MAX = 10


def leave(consumer: Consumer) -> None:
    """Close it, or leave it alone where it hangs.

    A rebalance that is told while a consumer closes asks a thread that has ended already (librdkafka's issue 4041).
    """
    closing = threading.Thread(target=consumer.close, daemon=True)
    closing.start()
    closing.join(LEAVING_S_MAX)
