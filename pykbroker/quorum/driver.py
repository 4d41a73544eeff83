"""The writer of the metadata log. This node is the only voter, so durable records are committed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from pykbroker.core.metadata.context import METADATA_FEATURE, RECORDS_MAX, excessive
from pykbroker.core.metadata.image import Delta
from pykbroker.core.metadata.machine import ControllerMachine
from pykbroker.core.metadata.record import Record, write_record
from pykbroker.core.outcome import Entry
from pykbroker.core.steps import Steps
from pykbroker.quorum.journal import BATCH_BYTES_MAX, MetadataJournal, begin_at
from pykbroker.quorum.progress import LogProgress
from pykbroker.quorum.quorum_state import QuorumState, write_state
from pykbroker.quorum.snapshot_file import QuorumRecord
from pykbroker.world.disk import Disk
from wire.records.builder import BatchBuilder
from wire.records.control import KRaftValue, kraft_batch
from wire.stored.control import LeaderChangeMessage, LeaderChangeMessageVoter


class Driver:
    """The metadata log and the controller's state machine, in one epoch.

    Any OSError of `append` and `commit` except that of a full disk is final, since the contents of the log are then
    unknown. `time_ms` is the append time of the last batch.
    """

    def __init__(
        self,
        journal: MetadataJournal,
        machine: ControllerMachine,
        disk: Disk,
        state: QuorumState,
        *,
        time_ms: int = -1,
        log_bytes: int = 0,
    ) -> None:
        self._journal, self._disk, self._state = journal, disk, state
        self.machine = machine
        self.time_ms, self._log_bytes = time_ms, log_bytes
        self.progress = LogProgress()

    @property
    def directory(self) -> str:
        """Return the path of the log directory that contains the metadata log."""
        return self._disk.path

    @property
    def epoch(self) -> int:
        """Return the epoch in which this voter leads the quorum."""
        return self._state.leader_epoch

    @property
    def node_id(self) -> int:
        return self._state.leader_id

    @property
    def log_bytes(self) -> int:
        """Return the bytes of records since the snapshot that this start read."""
        return self._log_bytes

    @property
    def journal_bytes(self) -> int:
        """Return the size of the log in bytes, without deleted segments."""
        return self._journal.size_bytes

    async def begin_epoch(self, now_ms: int, quorum: Sequence[QuorumRecord] = ()) -> None:
        """Append a LeaderChange record for the epoch in `quorum-state`. This voter alone elected itself.

        `quorum` are the records about the voters that the log lacks (KIP-853).
        """
        # Recovery may have accepted records that are only in the page cache, and the new epoch builds on them.
        await self._journal.flush()
        await self.note_synced(self._journal.log_end_offset)
        voters = [LeaderChangeMessageVoter(voter_id=self._state.leader_id)]
        message = LeaderChangeMessage(leader_id=self._state.leader_id, voters=voters, granting_voters=voters)
        self._journal.become_leader(self.epoch)
        control: list[KRaftValue] = [message, *quorum]
        self.append(kraft_batch(control, base_offset=0, leader_epoch=self.epoch, timestamp=now_ms), now_ms)
        self.machine.skip(self._journal.log_end_offset - 1)

    def frame(self, records: Sequence[Record], now_ms: int) -> Steps[list[tuple[bytes, Sequence[Record]]]]:
        """Return the records as batches of at most `RECORDS_MAX` records.

        Each batch is written as a whole or not at all.

        Raise ApiError POLICY_VIOLATION if a batch would be too large. Nothing has been written in that case.
        """
        level = self.machine.features.get(METADATA_FEATURE, 0)
        framed = []
        for start in range(0, len(records), RECORDS_MAX):
            builder, held = BatchBuilder(), records[start : start + RECORDS_MAX]
            for record in held:
                builder.append(None, write_record(record, level), timestamp=now_ms)
                yield
            framed.append((builder.build(), held))
        if any(len(batch) > BATCH_BYTES_MAX for batch, _ in framed):
            raise excessive()
        return framed

    def append(self, batch: bytes, now_ms: int) -> int:
        """Append a batch of `frame` and return the offset after it."""
        self._journal.append_as_leader(batch, self.epoch)
        self.time_ms = now_ms
        self._log_bytes += len(batch)
        self.progress.note()
        return self._journal.log_end_offset

    def entries(self, records: Sequence[Record], end_offset: int) -> Iterator[Entry[Record]]:
        """Yield the records of an appended batch that ends at `end_offset`, each with its offset, for the replay."""
        return (Entry(offset, record) for offset, record in enumerate(records, end_offset - len(records)))

    def freeze(self) -> Delta:
        """Return an image of all written records, with the changes since the last image."""
        return self.machine.freeze(self.epoch, self.time_ms)

    async def commit(self) -> None:
        """Make all records durable that were written before the call."""
        await self._journal.flush()

    async def begin_at(self, offset: int, now_ms: int) -> None:
        """Delete the segments whose records are all below `offset`. A snapshot contains these records."""
        await begin_at(self._journal, self._disk, offset, now_ms)

    async def close(self, *, failed: bool) -> None:
        """Close the log. Unless it has failed, flush it first and record in `quorum-state` that it is durable."""
        if not failed:
            await self._journal.flush()
            await self.note_synced(self._journal.log_end_offset)
        await self._journal.close()

    async def note_synced(self, offset: int) -> None:
        """Record in `quorum-state` that all records below `offset` are durable.

        A later start then reports damage there as an error.
        """
        self._state = msgspec.structs.replace(self._state, applied_offset=offset)
        await write_state(self._disk, self._state)
