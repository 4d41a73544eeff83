"""Reads the metadata log, and the snapshot that it begins with, into the controller's machine at start."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from pykbroker.core.errors import StartError
from pykbroker.core.metadata.machine import ControllerMachine, DamagedMetadata
from pykbroker.core.outcome import Entry
from pykbroker.quorum.driver import BATCH_BYTES_MAX
from pykbroker.quorum.journal import Journal
from pykbroker.storage.small_files import read_whole
from pykbroker.world.disk import Buffer, Disk, FileSlice
from wire.errors import DecodeError
from wire.records.batch import Batch, batches
from wire.records.control import control_records
from wire.records.record import records
from wire.stored.control import VotersRecord
from wire.stored.framing import FramedRecord, UnknownRecordType
from wire.stored.metadata import decode_metadata

READ_BYTES = 1 << 20
SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class Recovered(msgspec.Struct):
    """What the log says about itself: its newest epoch, and the voters where they stand in it."""

    epoch: int = 0
    voters: Sequence[int] = ()


async def recover(journal: Journal, disk: Disk, directory: str, machine: ControllerMachine) -> Recovered:
    """Replay everything. `StartError` where the log is damaged or what came before it is missing."""
    found = Recovered()
    try:
        await _read_snapshot(disk, directory, machine, found, journal)
        await _replay_log(journal, machine, found)
    except (DecodeError, DamagedMetadata) as error:
        raise StartError(f"{disk.path}/{directory} is damaged: {error}. Restore it from a copy; nothing was changed") \
            from error
    return found


async def _replay_log(journal: Journal, machine: ControllerMachine, found: Recovered) -> None:
    offset = machine.next_offset
    while offset < journal.log_end_offset:
        data = await journal.read_slowly(offset, READ_BYTES, journal.log_end_offset, at_least_one=True)
        for batch in batches(await _in_memory(data), strict=True):
            replay_batch(batch, machine, found)
            found.epoch = max(found.epoch, batch.leader_epoch)
        if machine.next_offset <= offset:
            raise DamagedMetadata(f"nothing can be read at offset {offset}, and the log ends at "
                                  f"{journal.log_end_offset}")
        offset = machine.next_offset


async def _in_memory(data: Buffer | FileSlice) -> Buffer:
    return await data.file.read(data.offset, data.size) if isinstance(data, FileSlice) else data


def replay_batch(batch: Batch, machine: ControllerMachine, found: Recovered) -> None:
    """Take a batch of the log or of a snapshot into the machine. Records of unknown types stay where they are."""
    if not batch.crc_ok():
        raise DamagedMetadata(f"the batch at offset {batch.base_offset} does not match its checksum")
    if batch.is_control:
        note_voters(batch, found)
        machine.skip(batch.last_offset)
        return
    for record in records(batch, BATCH_BYTES_MAX):
        value = None if record.value is None else known_record(record.value)
        if value is None:
            machine.skip(record.offset)
        else:
            machine.replay(Entry(record.offset, value))


def known_record(value: Buffer) -> FramedRecord | None:
    """The record in a value; None for a type that this broker does not know."""
    try:
        return decode_metadata(value)
    except UnknownRecordType:
        return None


def note_voters(batch: Batch, found: Recovered) -> None:
    """What a control batch says about the voters."""
    for control in control_records(batch):
        if isinstance(control.value, VotersRecord):
            found.voters = [voter.voter_id for voter in control.value.voters]


async def _read_snapshot(disk: Disk, directory: str, machine: ControllerMachine, found: Recovered,
                         journal: Journal) -> None:
    """The voters in the newest snapshot, and where the log does not start with offset 0 also its records."""
    newest = max((match for name in disk.names(directory) if (match := SNAPSHOT.fullmatch(name))),
                 key=lambda match: match[0], default=None)
    start, end = journal.log_start_offset, 0 if newest is None else int(newest[1])
    if not start <= end <= journal.log_end_offset:
        raise DamagedMetadata(f"the log holds the offsets from {start} to {journal.log_end_offset}, and the newest "
                              f"snapshot those up to {end}")
    if newest is None:
        return
    for batch in batches(await read_whole(disk, f"{directory}/{newest[0]}"), strict=True):
        if start > 0:
            replay_batch(batch, machine, found)
        elif batch.is_control:
            note_voters(batch, found)
    if start > 0:
        machine.forget_orphans()
        machine.skip(end - 1)
        found.epoch = int(newest[2])
