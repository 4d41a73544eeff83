"""Opening a partition's directory: find the segments, cut a torn tail, rebuild what goes with the log."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from pykbroker.core.replication.epochs import LeaderEpochs
from pykbroker.core.replication.producers import Producers
from pykbroker.core.replication.transactions import AbortedTransaction
from pykbroker.storage.config import LogConfig
from pykbroker.storage.replay import remember
from pykbroker.storage.segment import ActiveSegment, SealedSegment, file_name
from pykbroker.storage.walk import Walk
from pykbroker.world.disk import Disk

logger = logging.getLogger(__name__)
OFFSET_DIGITS = 20


class LogState(msgspec.Struct, gc=False):
    """What recovery found: all that a log is made of."""

    active: ActiveSegment
    sealed: list[SealedSegment]
    epochs: LeaderEpochs
    producers: Producers
    aborted: list[AbortedTransaction]
    log_start_offset: int
    recovery_point: int


class CorruptLog(Exception):
    """Damage below the recovery point: what was synced and acknowledged does not hold. Nothing was changed."""


def segment_offsets(names: list[str]) -> list[int]:
    """Base offsets of the segments among a directory's files, ascending."""
    stems = [name.removesuffix(".log") for name in names if name.endswith(".log")]
    return sorted(int(stem) for stem in stems if len(stem) == OFFSET_DIGITS and stem.isascii() and stem.isdigit())


async def recover(disk: Disk, directory: str, config: LogConfig, *, recovery_point: int, log_start_offset: int,
                  clean: bool, jitter: Callable[[int], int]) -> LogState:
    """The state of a log, from its files. `recovery_point` is known to be synced; CorruptLog: it does not hold."""
    bases = segment_offsets(disk.names(directory))
    if not bases:
        bases = [log_start_offset]
    state = LogState(active=_opened(disk, directory, bases[0], config, jitter), sealed=[], epochs=LeaderEpochs(),
                     producers=Producers(), aborted=[], log_start_offset=max(bases[0], log_start_offset),
                     recovery_point=recovery_point)
    for index, base in enumerate(bases):
        if index:
            state.sealed.append(state.active.seal())
            state.active = _opened(disk, directory, base, config, jitter)
        good = await _scan(state, directory, check_crc=not clean)
        if not good:
            _drop(disk, directory, bases[index + 1 :])
            break
    state.epochs.truncate_end(state.active.next_offset)
    state.recovery_point = min(recovery_point, state.active.next_offset)
    return state


def _opened(disk: Disk, directory: str, base: int, config: LogConfig, jitter: Callable[[int], int]) -> ActiveSegment:
    file = disk.open(file_name(directory, base, ".log"), create=True)
    return ActiveSegment(base, file, config, jitter(config.segment_jitter_ms))


async def _scan(state: LogState, directory: str, *, check_crc: bool) -> bool:
    """Take every batch of the newest segment into the state. False: its tail was torn, and cut."""
    segment = state.active
    walk = Walk(segment.file, 0, segment.file.size, segment.base_offset, check_crc=check_crc)
    while found := await walk.more():
        for _, batch in found:
            segment.note_batch(batch)
            state.epochs.assign(batch.leader_epoch, batch.base_offset)
            aborted = remember(state.producers, batch)
            if aborted:
                state.aborted.append(aborted)
    if walk.damage is None:
        return True
    if walk.next_offset < state.recovery_point:
        raise CorruptLog(f"{directory}: {walk.damage}, at byte {walk.position} of segment {segment.base_offset}; "
                         f"all below offset {state.recovery_point} was synced")
    logger.warning("%s: %s; cut to offset %d, %d bytes of segment %d are dropped", directory, walk.damage,
                   walk.next_offset, segment.file.size - walk.position, segment.base_offset)
    segment.file.truncate(walk.position)
    return False


def _drop(disk: Disk, directory: str, bases: list[int]) -> None:
    """Remove the segments behind a cut."""
    for base in bases:
        logger.warning("%s: segment %d lies behind the cut and is dropped", directory, base)
        disk.remove(file_name(directory, base, ".log"))
