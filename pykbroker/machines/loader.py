"""Loading: replays the whole log of a machine, in steps so small that other tasks can run."""

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
"""Records that are replayed, in 1 ms, before other tasks run. Records in runs are not counted."""
RUN_RECORDS = 8
"""Records in a run that take at least the time of one record outside of a run."""


class StoredLog(Protocol):
    """A log that is read from its start to its end."""

    @property
    def log_end_offset(self) -> int:
        """Return the offset of the next record."""

    async def read_batches(self, offset: int) -> Collection[Batch]:
        """Return batches from the one that holds `offset`, at least one. ApiError, DecodeError."""

    async def open(self, batches: Collection[Batch]) -> list[bytes | DecodeError]:
        """Return the decompressed records of the first batches, of one at least, or why the next cannot be read."""

    def read_entries(self, batch: Batch, data: bytes, offset: int) -> Iterator[Entry[Any]]:
        """Yield the records of a batch from `offset` on. DecodeError: the batch is damaged."""


class Loader:
    """Replays one log into one machine. Of all loaders with the same lock, one replays at a time."""

    def __init__(self, log: StoredLog, replaying: trio.Lock) -> None:
        self._log, self._replaying = log, replaying
        self._steps = 0  # since others had their turn

    async def load(self, machine: Machine[Any, Any, Any, Any], offset: int) -> int:
        """Replay the log from `offset` on, and return its end. ApiError, DecodeError: it cannot be read."""
        while offset < self._log.log_end_offset:
            offset = await self.load_some(machine, offset)
        return offset

    async def load_some(self, machine: Machine[Any, Any, Any, Any], offset: int) -> int:
        """Replay one read in small steps and return the offset after it."""
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
        """Replay the records of a batch from `offset` on. Small batches share a step."""
        for entry in self._log.read_entries(batch, data, offset):
            machine.replay(entry)
            self._steps += 1 + (entry.value.count // RUN_RECORDS if isinstance(entry.value, RecordRun) else 0)
            if self._steps >= LOAD_RECORDS_MAX:
                self._steps = 0
                await trio.lowlevel.checkpoint()
