"""The copy of the metadata log that an observer keeps: records, snapshots, and the state that follows from them."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec
import trio

from pykbroker.core.log.epochs import LeaderEpochs, OffsetAndEpoch
from pykbroker.core.metadata.difference import difference
from pykbroker.core.metadata.image import EMPTY, Delta, MetadataImage
from pykbroker.core.metadata.machine import ControllerMachine
from pykbroker.core.metadata.replay import DamagedMetadata
from pykbroker.core.replication.divergence import truncation_offset
from pykbroker.machines.loader import Loader
from pykbroker.quorum.journal import ReplicatedJournal, begin_at
from pykbroker.quorum.quorum_state import QuorumState, write_state
from pykbroker.quorum.recovery import Recovered, StoredMetadata, snapshot_image
from pykbroker.quorum.snapshots import Snapshots
from pykbroker.storage.files.refusals import NO_ROOM
from pykbroker.world.disk import Buffer, Disk, FileSlice
from wire.errors import DecodeError
from wire.messages.fetch import EpochEndOffset
from wire.records.batch import Batch, batches
from wire.sentinels import NO_LEADER_EPOCH

logger = logging.getLogger(__name__)

HELD_BYTES_MAX = 8 << 20
"""The bytes of metadata that are held in memory while the disk is full, and as many in a fetch."""
NewMachine = Callable[[MetadataImage], ControllerMachine]


class ObserverLog:
    """The log of an observer. Records are applied once the leader's high watermark has passed them.

    Appended records are not synced one by one: the leader has them, and a lost tail is fetched again. On a full disk,
    the newest ones are held in memory, so that the broker learns who leads instead of it.
    """

    def __init__(
        self,
        journal: ReplicatedJournal,
        disk: Disk,
        snapshots: Snapshots,
        state: QuorumState,
        found: Recovered,
        new_machine: NewMachine,
    ) -> None:
        self._journal, self._disk, self.snapshots = journal, disk, snapshots
        self._state, self.found, self._new_machine = state, found, new_machine
        self._replaying = trio.Lock()
        self._held: list[Batch] = []
        """The batches after the end of the journal, whose disk is full."""
        self.image = found.machine.freeze(found.epoch, found.time_ms).image

    @property
    def directory(self) -> str:
        """Return the path of the log directory that contains the log."""
        return self._disk.path

    @property
    def log_bytes(self) -> int:
        """Return the bytes of records that were replayed since the start."""
        return self.found.log_bytes

    @property
    def journal_bytes(self) -> int:
        """Return the size of the log in bytes, without deleted segments."""
        return self._journal.size_bytes

    @property
    def log_end_offset(self) -> int:
        """Return the offset of the next record to fetch."""
        return self._held[-1].last_offset + 1 if self._held else self._journal.log_end_offset

    @property
    def last_epoch(self) -> int:
        """Return the epoch of the last record, 0 if there is none."""
        if self._held:
            return self._held[-1].leader_epoch
        latest = self._journal.epochs.latest
        if latest != NO_LEADER_EPOCH:
            return latest
        newest = self.snapshots.ids()[-1:]
        return newest[0].epoch if newest and newest[0].offset == self.log_end_offset else 0

    @property
    def replayed(self) -> int:
        """Return the offset below which all records are replayed."""
        return self.found.machine.next_offset

    async def note_leader(self, leader_id: int, epoch: int) -> None:
        """Record the leader of a new epoch in `quorum-state`. A full disk refuses that until the next call."""
        if (leader_id, epoch) != (self._state.leader_id, self._state.leader_epoch):
            state = msgspec.structs.replace(self._state, leader_id=leader_id, leader_epoch=epoch)
            try:
                await write_state(self._disk, state)
            except OSError as refusal:
                if refusal.errno not in NO_ROOM:
                    raise
            else:
                self._state = state

    def append(self, records: Buffer) -> None:
        """Append fetched batches, after those that are held in memory.

        Raise ApiError CORRUPT_MESSAGE if they do not follow the log, and OSError if the disk refuses them and more than
        HELD_BYTES_MAX would be held.
        """
        unwritten = b"".join((*(batch.buffer for batch in self._held), records))
        try:
            self._journal.append_stored(unwritten)
            self._held = []
        except OSError as refusal:
            if refusal.errno not in NO_ROOM or len(unwritten) > HELD_BYTES_MAX:
                raise
            if not self._held:
                logger.warning("%s takes no metadata, which is held in memory: %s", self.directory, refusal)
            end = self._journal.log_end_offset
            self._held = [batch for batch in batches(unwritten) if batch.base_offset >= end]

    async def read_patiently(
        self, offset: int, bytes_max: int, upper_offset: int, /, *, at_least_one: bool
    ) -> Buffer | FileSlice:
        """Return whole batches that end below `upper_offset`, as a journal does, or all of them that are held."""
        end = self._journal.log_end_offset
        if offset < end:
            upper_offset = min(upper_offset, end)
            return await self._journal.read_patiently(offset, bytes_max, upper_offset, at_least_one=at_least_one)
        return b"".join(batch.buffer for batch in self._held if offset <= batch.last_offset < upper_offset)

    async def truncate(self, diverging: EpochEndOffset) -> None:
        """Drop the records that the leader does not have. Raise DamagedMetadata if one of them was committed."""
        epochs = LeaderEpochs(self._journal.epochs.entries)
        for batch in self._held:
            epochs.assign(batch.leader_epoch, batch.base_offset)
        offset = truncation_offset(diverging, epochs, self.log_end_offset)
        if offset < self.replayed:
            raise DamagedMetadata(
                f"the leader's log diverges at offset {offset}, and all records below {self.replayed} were committed"
            )
        logger.info("the metadata log is truncated from offset %d to %d", self.log_end_offset, offset)
        self._held = [batch for batch in self._held if batch.last_offset < offset]
        if offset < self._journal.log_end_offset:
            await self._journal.truncate(offset)

    async def replay(self, high_watermark: int) -> Delta | None:
        """Replay the records below the high watermark, and return the change, or None if there are none."""
        end, machine = min(high_watermark, self.log_end_offset), self.found.machine
        if end <= machine.next_offset:
            return None
        await Loader(StoredMetadata(self, self.found, end), self._replaying).load(machine, machine.next_offset)
        delta = machine.freeze(self.found.epoch, self.found.time_ms)
        self.image = delta.image
        return delta

    async def take_snapshot(self, snapshot: OffsetAndEpoch) -> Delta:
        """Continue from a snapshot that was just fetched, and return the change that it means.

        Raise DecodeError or DamagedMetadata if the snapshot is damaged.
        """
        content = await self.snapshots.read(snapshot)
        image = snapshot_image(snapshot, content)
        self.found.machine, self.found.epoch = self._new_machine(image), snapshot.epoch
        self.found.time_ms = content.time_ms
        self.found.quorum.clear()
        self.found.quorum.update({type(record): record for record in content.quorum})
        await self._journal.truncate_fully_and_start_at(snapshot.offset)
        self._held = []
        delta, self.image = difference(self.image, image), image
        return delta

    async def begin_at(self, offset: int, now_ms: int) -> None:
        """Delete the segments whose records are all below `offset`. A snapshot contains these records."""
        offset = min(offset, self._journal.log_end_offset)  # the snapshot may contain records that are held
        await begin_at(self._journal, self._disk, offset, now_ms)

    async def note_synced(self, offset: int) -> None:
        """Do nothing: a damaged tail of this copy is fetched again."""

    async def close(self) -> None:
        await self._journal.flush()
        await self._journal.close()


async def recover_copy(journal: ReplicatedJournal, snapshots: Snapshots, new_machine: NewMachine) -> Recovered:
    """Return the state of the newest undamaged snapshot. The records after it are replayed once they are committed.

    The log begins anew at the snapshot if it does not continue it.
    """
    for snapshot in reversed(snapshots.ids()):
        try:
            content = await snapshots.read(snapshot)
            image = snapshot_image(snapshot, content)
        except (DecodeError, DamagedMetadata) as damage:
            snapshots.set_aside(snapshot, damage)
            continue
        # A crash after the fetch of the snapshot has left the log as it was before.
        if not journal.log_start_offset <= snapshot.offset <= journal.log_end_offset:
            await journal.truncate_fully_and_start_at(snapshot.offset)
        quorum = {type(record): record for record in content.quorum}
        return Recovered(new_machine(image), snapshot.epoch, content.time_ms, 0, quorum)
    if journal.log_start_offset > 0:
        # No snapshot has the records before the log, so that all of them are fetched again.
        await journal.truncate_fully_and_start_at(0)
    return Recovered(new_machine(EMPTY))
