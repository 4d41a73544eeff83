"""The recovery of the metadata at start: the newest undamaged snapshot, then the log from the snapshot's end on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import msgspec
import trio

from pykbroker.core.log.epochs import OffsetAndEpoch
from pykbroker.core.metadata.image import EMPTY, MetadataImage
from pykbroker.core.metadata.machine import ControllerMachine
from pykbroker.core.metadata.record import Record as MetadataRecord
from pykbroker.core.metadata.record import read_record
from pykbroker.core.metadata.replay import DamagedMetadata
from pykbroker.core.metadata.snapshot import image_of
from pykbroker.core.outcome import Entry
from pykbroker.machines.loader import Loader
from pykbroker.quorum.journal import BATCH_BYTES_MAX, MetadataJournal, ReadableMetadata
from pykbroker.quorum.snapshot_file import Content, QuorumRecord, snapshot_name
from pykbroker.quorum.snapshots import Snapshots
from pykbroker.world.disk import Buffer, FileSlice
from wire.errors import DecodeError
from wire.records.batch import Batch, batches
from wire.records.control import control_records
from wire.records.record import RecordCursor, content
from wire.stored.control import KRaftVersionRecord, VotersRecord

READ_BYTES = 1 << 20


class Recovered(msgspec.Struct):
    """The result of a recovery: the state, the newest epoch, the time of the last record, and the bytes of log read.

    `quorum` has the last record of each type that the log contains about its own quorum. `quorum_is_logged` is false if
    only the formatting wrote these records, into a snapshot without an offset.
    """

    machine: ControllerMachine
    epoch: int = 0
    time_ms: int = -1
    log_bytes: int = 0
    quorum: dict[type, QuorumRecord] = {}
    quorum_is_logged: bool = False

    @property
    def voters(self) -> set[int]:
        """Return the ids of the voters that the log records, or an empty set if the config names the voters."""
        record = self.quorum.get(VotersRecord)
        return {voter.voter_id for voter in record.voters} if isinstance(record, VotersRecord) else set()

    @property
    def kraft_version(self) -> int:
        """Return the level of `kraft.version`."""
        record = self.quorum.get(KRaftVersionRecord)
        return record.kraft_version if isinstance(record, KRaftVersionRecord) else 0


async def recover(
    journal: MetadataJournal, snapshots: Snapshots, new_machine: Callable[[MetadataImage], ControllerMachine]
) -> Recovered:
    """Read the newest undamaged snapshot and replay the log after it.

    Raise DecodeError or DamagedMetadata if the log is damaged, or if its deleted beginning is in no undamaged snapshot.
    Damaged snapshots are renamed.
    """
    usable = _usable(journal, snapshots.ids())
    found, damaged = await _newest(snapshots, usable, new_machine)
    if found is None:
        if journal.log_start_offset > 0:
            raise DamagedMetadata(
                f"the log begins at offset {journal.log_start_offset}, and no undamaged snapshot "
                f"has the records before it: {', '.join(f'{snapshot_name(one)}: {why}' for one, why in damaged)}"
            )
        found = Recovered(new_machine(EMPTY))
    await _replay_log(journal, found)
    # Only now, since a start that fails changes nothing on disk.
    for snapshot, why in damaged:
        snapshots.set_aside(snapshot, why)
    return found


def _usable(journal: MetadataJournal, ids: list[OffsetAndEpoch]) -> list[OffsetAndEpoch]:
    """Return the snapshots that end within the log, the oldest first."""
    start, end = journal.log_start_offset, journal.log_end_offset
    newest = ids[-1].offset if ids else 0
    if not start <= newest <= end:
        raise DamagedMetadata(
            f"the log has the offsets from {start} to {end}, but the newest snapshot ends at {newest}"
        )
    return [one for one in ids if one.offset >= start]


async def _newest(
    snapshots: Snapshots, usable: list[OffsetAndEpoch], new_machine: Callable[[MetadataImage], ControllerMachine]
) -> tuple[Recovered | None, list[tuple[OffsetAndEpoch, Exception]]]:
    """Return the state from the newest undamaged snapshot, and the damaged snapshots after it with their errors."""
    damaged: list[tuple[OffsetAndEpoch, Exception]] = []
    for snapshot in reversed(usable):
        try:
            content = await snapshots.read(snapshot)
            image = snapshot_image(snapshot, content)
        except (DecodeError, DamagedMetadata) as error:
            damaged.append((snapshot, error))
            continue
        quorum = {type(record): record for record in content.quorum}
        is_logged = bool(quorum) and snapshot.offset > 0
        return Recovered(new_machine(image), snapshot.epoch, content.time_ms, 0, quorum, is_logged), damaged
    return None, damaged


def snapshot_image(snapshot: OffsetAndEpoch, content: Content) -> MetadataImage:
    """Return the image in a snapshot. Raise DecodeError or DamagedMetadata if the snapshot is damaged."""
    values = map(read_record, content.values)
    return image_of(values, snapshot.offset - 1, snapshot.epoch, content.time_ms)


async def _replay_log(journal: MetadataJournal, found: Recovered) -> None:
    await Loader(StoredMetadata(journal, found), trio.Lock()).load(found.machine, found.machine.next_offset)


class StoredMetadata:
    """The metadata log, adapted to the loader. Records about the log's own quorum are stored in `found`.

    Records from `end` on are left out.
    """

    def __init__(self, journal: ReadableMetadata, found: Recovered, end: int | None = None) -> None:
        self._journal, self._found, self._end = journal, found, end

    @property
    def log_end_offset(self) -> int:
        """Return the offset of the next record."""
        return self._journal.log_end_offset if self._end is None else self._end

    async def read_batches(self, offset: int) -> list[Batch]:
        """Return batches; the first contains `offset`. Raise DamagedMetadata if no batch does."""
        data = await self._journal.read_patiently(offset, READ_BYTES, self.log_end_offset, at_least_one=True)
        found = list(batches(await _in_memory(data), strict=True))
        if not found or found[-1].last_offset < offset:
            raise DamagedMetadata(f"nothing can be read at offset {offset}, and the log ends at {self.log_end_offset}")
        return found

    async def open(self, found: Collection[Batch]) -> list[bytes | DecodeError]:
        """Return the decompressed records of the first batch. Raise DamagedMetadata if its CRC does not match."""
        batch = next(iter(found))
        if not batch.crc_ok():
            raise DamagedMetadata(f"the batch at offset {batch.base_offset} does not match its checksum")
        return [b"" if batch.is_control else content(batch, BATCH_BYTES_MAX)]

    def read_entries(self, batch: Batch, data: bytes, offset: int) -> Iterator[Entry[MetadataRecord]]:
        """Yield the records of a batch from `offset` on. Note its epoch, time, size and control records in `found`."""
        found = self._found
        found.epoch = max(found.epoch, batch.leader_epoch)
        found.time_ms = batch.max_timestamp
        found.log_bytes += batch.size
        if batch.is_control:
            for control in control_records(batch):
                if isinstance(control.value, VotersRecord | KRaftVersionRecord):
                    found.quorum[type(control.value)] = control.value
                    found.quorum_is_logged = True
        else:
            cursor = RecordCursor(batch, data)
            while cursor.left:
                record = cursor.take()
                if record.offset >= offset:
                    yield Entry(record.offset, read_record(record.value))
            cursor.finish()
        found.machine.skip(batch.last_offset)


async def _in_memory(data: Buffer | FileSlice) -> Buffer:
    return await data.file.read(data.offset, data.size) if isinstance(data, FileSlice) else data
