"""Writes the metadata log as its only voter: what is durable here is committed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pykbroker.core.errors import ApiError
from pykbroker.core.metadata.context import METADATA_FEATURE, RECORDS_MAX, Record
from pykbroker.core.metadata.features import record_version
from pykbroker.core.metadata.machine import ControllerMachine
from pykbroker.core.outcome import Entry
from pykbroker.quorum.journal import Journal
from pykbroker.quorum.quorum_state import QuorumState, write_state
from pykbroker.world.disk import Disk
from wire.error_codes import ErrorCode
from wire.records.builder import BatchBuilder
from wire.records.control import kraft_batch
from wire.stored.control import LeaderChangeMessage, LeaderChangeMessageVoter
from wire.stored.metadata import encode_metadata

BATCH_BYTES_MAX = 8 << 20  # what Kafka's voters take in one batch


class Driver:
    """The log and the machine that its records go through, under one epoch.

    Any error of `write` and `commit` is final: it is not known what the log holds.
    """

    def __init__(self, journal: Journal, machine: ControllerMachine, disk: Disk, state: QuorumState) -> None:
        self._journal, self._disk, self._state = journal, disk, state
        self.machine = machine

    @property
    def epoch(self) -> int:
        """The epoch in which this voter leads."""
        return self._state.leader_epoch

    async def begin_epoch(self, now_ms: int) -> None:
        """Write the epoch down, then into the log: this voter leads, elected by itself alone."""
        await self._journal.flush()
        await self._note_synced()
        voters = [LeaderChangeMessageVoter(voter_id=self._state.leader_id)]
        message = LeaderChangeMessage(leader_id=self._state.leader_id, voters=voters, granting_voters=voters)
        batch = kraft_batch([message], base_offset=0, leader_epoch=self.epoch, timestamp=now_ms)
        self._journal.become_leader(self.epoch)
        self._journal.append_as_leader(batch, self.epoch, now_ms)
        self.machine.skip(self._journal.log_end_offset - 1)

    def batches(self, records: Sequence[Record], now_ms: int) -> list[bytes]:
        """The records as they go into the log: up to `RECORDS_MAX` in one batch, which is all or nothing.

        `ApiError` POLICY_VIOLATION when one would be too large; nothing has been written then.
        """
        level = self.machine.features.get(METADATA_FEATURE, 0)
        values = [encode_metadata(record, record_version(record, level)) for record in records]
        batches = [_batch(values[start:start + RECORDS_MAX], now_ms) for start in range(0, len(values), RECORDS_MAX)]
        if any(len(batch) > BATCH_BYTES_MAX for batch in batches):
            raise ApiError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
        return batches

    def write(self, batches: Sequence[bytes], records: Sequence[Record], now_ms: int) -> None:
        """Append the batches of these records, and replay the records."""
        offset = self._journal.log_end_offset
        for batch in batches:
            self._journal.append_as_leader(batch, self.epoch, now_ms)
        for place, record in enumerate(records, offset):
            self.machine.replay(Entry(place, record))

    async def commit(self) -> None:
        """Make durable all that was written before the call."""
        await self._journal.flush()

    async def close(self, *, failed: bool) -> None:
        """Close the log; one that has not failed is all on disk then, and known to be."""
        if not failed:
            await self._journal.flush()
            await self._note_synced()
        await self._journal.close()

    async def _note_synced(self) -> None:
        self._state = msgspec.structs.replace(self._state, applied_offset=self._journal.log_end_offset)
        await write_state(self._disk, self._state)


def _batch(values: Sequence[bytes], now_ms: int) -> bytes:
    builder = BatchBuilder()
    for value in values:
        builder.append(None, value, timestamp=now_ms)
    return builder.build()
