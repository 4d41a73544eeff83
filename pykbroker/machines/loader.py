"""Loading a state machine: its whole log is replayed, in steps that are short enough for other tasks to run."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from typing import Any, Protocol

import trio

from pykbroker.core.outcome import Entry, Machine
from wire.errors import DecodeError
from wire.records.batch import Batch
from wire.stored.framing import RecordRun

LOAD_RECORDS_MAX = 200
"""The number of records that are replayed, in about 1 ms, before other tasks may run.

A run, which is a sequence of similar records that are replayed together, counts for fewer.
"""
RUN_RECORDS = 8
"""The number of records in a `RecordRun` that take as long to replay as one record outside of it."""


class StoredLog(Protocol):
    """A log that can be read from its start to its end."""

    @property
    def log_end_offset(self) -> int:
        """Return the offset of the next record."""

    async def read_batches(self, offset: int) -> Collection[Batch]:
        """Return at least one batch; the first is the batch that contains `offset`.

        Raise ApiError or DecodeError if no batch contains it.
        """

    async def open(self, batches: Collection[Batch]) -> list[bytes | DecodeError]:
        """Return the decompressed records of the first batches, at least one.

        An error stands for the first unreadable batch.
        """

    def read_entries(self, batch: Batch, data: bytes, offset: int) -> Iterator[Entry[Any]]:
        """Yield the records of a batch from `offset` on. Raise DecodeError if the batch is damaged."""


class Loader:
    """A replay of one log into one state machine. Of all loaders with the same lock, only one replays at a time."""

    def __init__(self, log: StoredLog, replaying: trio.Lock) -> None:
        self._log, self._replaying = log, replaying
        self._steps = 0  # since other tasks could last run

    async def load(self, machine: Machine[Any, Any, Any, Any], offset: int) -> int:
        """Replay the log from `offset` on, and return its end offset.

        Raise ApiError or DecodeError if the log cannot be read.
        """
        while offset < self._log.log_end_offset:
            offset = await self.load_some(machine, offset)
        return offset

    async def load_some(self, machine: Machine[Any, Any, Any, Any], offset: int) -> int:
        """Read a few batches, replay them in short steps, and return the offset after them."""
        found = deque(await self._log.read_batches(offset))
        async with self._replaying:
            while found:
                for data in await self._log.open(found):
                    if isinstance(data, DecodeError):
                        raise data
                    batch = found.popleft()
                    await self._replay(machine, batch, data, offset)
                    offset = max(offset, batch.last_offset + 1)
            await trio.lowlevel.checkpoint()
        return offset

    async def _replay(self, machine: Machine[Any, Any, Any, Any], batch: Batch, data: bytes, offset: int) -> None:
        """Replay the records of a batch from `offset` on. Let other tasks run after `LOAD_RECORDS_MAX` records."""
        for entry in self._log.read_entries(batch, data, offset):
            machine.replay(entry)
            self._steps += 1 + (entry.value.count // RUN_RECORDS if isinstance(entry.value, RecordRun) else 0)
            if self._steps >= LOAD_RECORDS_MAX:
                self._steps = 0
                await trio.lowlevel.checkpoint()
