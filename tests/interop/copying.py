"""Copies of a topic in transactions by members of a group, while copiers and the broker are killed.

A copier knows its position only from the committed offsets of the group. The broker is killed, and copiers stop, at
random steps: between poll, produce and commit, or while the broker handles one of them.
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
"""The steps of a transaction: begun, produced, offsets sent, committed."""
LIFE_STEPS = (100, 300)

Record = tuple[int, int, bytes]
"""The partition, offset and value of a record."""


class Client(Protocol):
    """A consumer subscribed to the source topic, and a transactional producer for the target topic."""

    errors: tuple[type[Exception], ...]
    moved: bool
    """Whether the assignment may have changed since the last `rewind`."""

    def rewind(self) -> Mapping[int, int]:
        """Seek each assigned partition to the committed offset of the group; return these offsets."""

    def poll(self) -> Sequence[Record]: ...

    def begin(self) -> None: ...

    def send(self, records: Sequence[Record]) -> None: ...

    def send_offsets(self, offsets: Mapping[int, int]) -> None: ...

    def commit(self) -> None: ...

    def recover(self, error: Exception) -> None:
        """Abort the transaction if `error` allows it.

        Otherwise create a new producer, whose initialization completes or aborts the transaction.
        """

    def close(self) -> None:
        """Leave the group and drop the producer with its open transaction."""


class PlannedKills:
    """Planned kills of the broker at chosen steps of the copiers, which continue while it restarts."""

    def __init__(self, broker: BrokerProcess, steps: Sequence[int]) -> None:
        self._broker, self._steps = broker, sorted(steps)
        self._lock, self._shot, self._over = threading.Lock(), threading.Event(), threading.Event()
        self._taken = self._fired = 0
        self._thread = threading.Thread(target=self._fire)

    def step(self) -> None:
        """Record that a copier reached another step; kill the broker if a kill is planned for it."""
        with self._lock:
            self._taken += 1
            if not self.all_fired and self._taken >= self._steps[self._fired]:
                self._shot.set()

    @property
    def all_fired(self) -> bool:
        """Whether the broker is running again after the last kill."""
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
    """The committed offsets of the group, as far as its members know them."""

    def __init__(self, records: int, shots: PlannedKills) -> None:
        self._records, self._shots = records, shots
        self._lock, self._offsets = threading.Lock(), dict[int, int]()

    def learn(self, offsets: Mapping[int, int]) -> None:
        """Record committed offsets. The group may have committed more since."""
        with self._lock:
            for index, offset in offsets.items():
                self._offsets[index] = max(offset, self._offsets.get(index, 0))

    @property
    def done(self) -> bool:
        """Whether all records are copied and all kills have happened."""
        with self._lock:
            return self._shots.all_fired and sum(self._offsets.values()) == self._records


class Copier:
    """A loop of transactions, through one client after another, until all records are copied."""

    def __init__(
        self, new_client: Callable[[], Client], progress: Progress, step: Callable[[], None], seed: int
    ) -> None:
        self._new_client, self._progress, self._step = new_client, progress, step
        self._chance, self._steps_left = random.Random(seed), 0

    def copy(self) -> None:
        """Copy records with clients that each run for a few steps and may stop within a transaction."""
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
            client.recover(error)

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
    """Run a copier for each of `new_clients` until `records` records are copied and the broker was killed `kills`
    times.
    """
    steps = random.Random(seed).sample(range(1, (STEPS - 1) * records // BATCH_RECORDS_MAX), kills)
    with PlannedKills(broker, steps) as shots:
        progress = Progress(records, shots)
        threads = [
            threading.Thread(target=Copier(new, progress, shots.step, seed + number).copy)
            for number, new in enumerate(new_clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
