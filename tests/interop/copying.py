"""Copies of a topic, read and written in transactions by members of a group, while copiers and the broker are killed.

What copiers know of their place is only what the group has committed. Kills of the broker and ends of copiers come at
steps that are drawn by lot: between what is polled, produced and committed, or while the broker is at it.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, Self

from tools.broker_process import BrokerProcess

BATCH_RECORDS_MAX = 1000
STEPS = 4
"""Of a transaction: begun, produced, offsets sent, committed."""
LIFE_STEPS = (100, 300)

Record = tuple[int, int, bytes]
"""Its partition, offset and value."""


class Client(Protocol):
    """A consumer of a group that has subscribed to the source, and a producer of a transactional id to the target."""

    errors: tuple[type[Exception], ...]
    moved: bool
    """Whether its partitions may be others since it has rewound."""

    def rewind(self) -> Mapping[int, int]:
        """Go back, in all its partitions, to the offsets that the group has committed, and tell them."""

    def poll(self) -> Sequence[Record]: ...

    def begin(self) -> None: ...

    def send(self, records: Sequence[Record]) -> None: ...

    def send_offsets(self, offsets: Mapping[int, int]) -> None: ...

    def commit(self) -> None: ...

    def give_up(self, error: Exception) -> None:
        """Abort if that is what it takes, else let a new producer find out what became of the transaction."""

    def close(self) -> None:
        """Leave the group and forget the producer, with what it had begun."""


class Shots:
    """Kills the broker at steps of the copiers, and starts it again, while they go on."""

    def __init__(self, broker: BrokerProcess, steps: Sequence[int]) -> None:
        self._broker, self._steps = broker, sorted(steps)
        self._lock, self._shot, self._over = threading.Lock(), threading.Event(), threading.Event()
        self._taken = self._fired = 0
        self._thread = threading.Thread(target=self._fire)

    def step(self) -> None:
        """A copier has come to another step."""
        with self._lock:
            self._taken += 1
            if not self.all_fired and self._taken >= self._steps[self._fired]:
                self._shot.set()

    @property
    def all_fired(self) -> bool:
        """Whether the broker runs again after the last kill."""
        return self._fired == len(self._steps)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._shot.set()
        self._thread.join()

    def _fire(self) -> None:
        while self._shot.wait() and not self._over.is_set():
            self._broker.restart()
            self._shot.clear()
            self._fired += 1


class Progress:
    """How far the group has come, as far as its members know."""

    def __init__(self, records: int, shots: Shots) -> None:
        self._records, self._shots = records, shots
        self._lock, self._offsets = threading.Lock(), dict[int, int]()

    def learn(self, offsets: Mapping[int, int]) -> None:
        """These have been committed; by now it may be more."""
        with self._lock:
            for index, offset in offsets.items():
                self._offsets[index] = max(offset, self._offsets.get(index, 0))

    @property
    def done(self) -> bool:
        """Whether all records have been copied and all kills have come."""
        with self._lock:
            return self._shots.all_fired and sum(self._offsets.values()) == self._records


class Copier:
    """One transaction after the other until all is done, by one client after the other."""

    def __init__(
        self, new_client: Callable[[], Client], progress: Progress, step: Callable[[], None], seed: int
    ) -> None:
        self._new_client, self._progress, self._step = new_client, progress, step
        self._chance, self._steps_left = random.Random(seed), 0

    def copy(self) -> None:
        """With clients that each live for some steps, and may end within a transaction."""
        while not self._progress.done:
            client = self._new_client()
            self._steps_left = self._chance.randint(*LIFE_STEPS)
            while self._steps_left and not self._progress.done:
                self._go_on(client)
            client.close()

    def _go_on(self, client: Client) -> None:
        try:
            if client.moved:
                self._progress.learn(client.rewind())
            records = client.poll()
            if records and not client.moved:
                self._transact(client, records)
        except client.errors as error:
            client.give_up(error)

    def _transact(self, client: Client, records: Sequence[Record]) -> None:
        offsets = {index: offset + 1 for index, offset, _ in records}
        for deed in (client.begin, partial(client.send, records), partial(client.send_offsets, offsets), client.commit):
            deed()
            self._step()
            self._steps_left -= 1
            if not self._steps_left:
                return
        self._progress.learn(offsets)


def copy(
    broker: BrokerProcess, new_clients: Sequence[Callable[[], Client]], records: int, kills: int, seed: int
) -> None:
    """Run a copier for each of the functions, all at once, until so many records are copied and so many kills came."""
    steps = random.Random(seed).sample(range(1, (STEPS - 1) * records // BATCH_RECORDS_MAX), kills)
    with Shots(broker, steps) as shots:
        progress = Progress(records, shots)
        threads = [
            threading.Thread(target=Copier(new, progress, shots.step, seed + number).copy)
            for number, new in enumerate(new_clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
