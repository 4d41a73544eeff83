"""The records of the demonstration: orders of customers, with the habits of real ones."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import NamedTuple

import trio

from pykbroker.producer import Producer

TOPIC = "orders"
PARTITIONS = 4
RECORDS = 100_000
CUSTOMERS = 2000
DAY_MS = 86_400_000
CHUNK = 5000
"""The records of a transaction."""
ABORTED_EVERY = 8
"""One transaction of so many is aborted, and sent again by the next one."""
ITEMS = ("tea", "coffee", "bread", "apples", "cheese", "rice", "olives", "honey")
LATE_SHARE, LATE_MS_MAX = 0.01, 90_000
TOMBSTONE_SHARE = 0.01


class Orders(NamedTuple):
    """Columns of records. A value of None says that a customer has left."""

    keys: list[bytes]
    values: list[bytes | None]
    timestamps: list[int]

    def part(self, start: int, end: int) -> Orders:
        """Return some of the records."""
        return Orders(self.keys[start:end], self.values[start:end], self.timestamps[start:end])


def orders(count: int, now_ms: int, seed: int = 1) -> Orders:
    """Return orders of the last day: a few customers order often, nights are quiet, and some orders come late."""
    rng = random.Random(seed)
    found = Orders([], [], [])
    for number, time_ms in enumerate(_times(count, now_ms)):
        customer = int(CUSTOMERS * rng.random() ** 3)
        has_left = rng.random() < TOMBSTONE_SHARE
        amount, item = 2 + rng.expovariate(1 / 15), rng.choice(ITEMS)
        note = f', "note": "{"please ring " * rng.randrange(1, 12)}"' if rng.random() < 0.2 else ""
        value = f'{{"order": {number}, "item": "{item}", "amount": {amount:.2f}{note}}}'
        late_ms = rng.randrange(LATE_MS_MAX) if rng.random() < LATE_SHARE else 0
        found.keys.append(b"customer-%d" % customer)
        found.values.append(None if has_left else value.encode())
        found.timestamps.append(time_ms - late_ms)
    return found


def _times(count: int, now_ms: int) -> Iterator[int]:
    """Yield times of one day whose rate rises and falls twice."""
    for number in range(count):
        share = (number + 1) / count
        yield now_ms - DAY_MS + int(DAY_MS * (share - 0.04 * math.sin(4 * math.pi * share)))


async def produce(bootstrap: str, records: Orders) -> None:
    """Send records in transactions. Some are aborted, so that the log has records that no consumer may read."""
    async with Producer(bootstrap_servers=bootstrap, transactional_id="pykbroker-demo", linger_ms=5) as producer:
        await producer.init_transactions()
        for index, start in enumerate(range(0, len(records.keys), CHUNK)):
            chunk = records.part(start, start + CHUNK)
            if index % ABORTED_EVERY == ABORTED_EVERY - 1:
                await producer.begin_transaction()
                await producer.send_many(TOPIC, chunk.values, chunk.keys, timestamps=chunk.timestamps)
                await producer.flush()
                await producer.abort_transaction()
            async with producer.transaction():
                await producer.send_many(TOPIC, chunk.values, chunk.keys, timestamps=chunk.timestamps)


def produce_orders(bootstrap: str, count: int, now_ms: int) -> None:
    """Send orders of the last day to the topic."""
    trio.run(produce, bootstrap, orders(count, now_ms))
