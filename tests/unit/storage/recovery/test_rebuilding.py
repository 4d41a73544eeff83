"""Tests of recovery, which rebuilds indexes, producer snapshots and leader epochs in any state that a crash leaves."""

from __future__ import annotations

import errno
import random

import pytest

from pykbroker.core.errors import ApiError
from pykbroker.storage.files.errors import CorruptLog
from pykbroker.world import system_disk
from pykbroker.world.system_disk import SystemDisk
from tests.unit.storage.logs import DIRECTORY, NOW, batch, every_byte, file_bytes, filled, open_log
from tests.unit.storage.recovered import answers, contents, with_transactions, write_files
from wire.error_codes import ErrorCode

DISPOSABLE = (".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint")


async def test_a_log_on_a_full_disk_can_be_recovered_and_read(
    disk: SystemDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Indexes and snapshots are written once the disk has space."""
    log = await with_transactions(disk)
    expected = await answers(log)
    files = {name: data for name, data in contents(disk).items() if name.endswith(".log")}
    write_files(disk, files)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    for harmed in (files, files | {f"{name[:20]}.index": b"x" for name in files}):
        for clean in (True, False):
            write_files(disk, harmed)
            with monkeypatch.context() as patch:
                patch.setattr(system_disk, "pwrite", full)
                log = await open_log(disk, clean=clean)
                assert await answers(log) == expected
    await log.close()
    assert {f"{name[:20]}.index" for name in files} <= set(disk.names(DIRECTORY))
    assert await answers(await open_log(disk, clean=True)) == expected


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("harm", ["lost", "emptied", "cut", "flipped", "garbage", "another's"])
async def test_any_damage_of_files_that_can_be_rebuilt_does_not_change_reads(
    disk: SystemDisk, clean: bool, harm: str
) -> None:
    """Damage a random half of all files except the `.log` files, in each of ten rounds."""
    log = await with_transactions(disk)
    expected = await answers(log)
    await log.close()
    files, rng = contents(disk), random.Random(harm)
    disposable = [name for name in files if name.endswith(DISPOSABLE)]
    if harm == "flipped":  # A damaged digit may give another valid epoch.
        disposable.remove("leader-epoch-checkpoint")
    for _ in range(10):
        harmed = dict(files)
        for name in rng.sample(disposable, len(disposable) // 2):
            data = bytearray(files[name])
            if harm == "lost":
                del harmed[name]
            elif harm == "another's":
                harmed[name] = files[rng.choice([one for one in disposable if one[20:] == name[20:]])]
            elif harm == "cut":
                harmed[name] = bytes(data[: rng.randrange(len(data) + 1)])
            elif harm == "flipped":
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
                harmed[name] = bytes(data)
            else:
                harmed[name] = b"" if harm == "emptied" else rng.randbytes(len(data))
        write_files(disk, harmed)
        log = await open_log(disk, clean=clean, recovery_point=expected["end"])
        got = await answers(log)
        assert {key: got[key] for key in expected if got[key] != expected[key]} == {}
        log.abandon()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("others", [(1, 7), (8, 9)])
async def test_a_producer_snapshot_of_another_partition_is_ignored(
    disk: SystemDisk, others: tuple[int, int], clean: bool
) -> None:
    other = await with_transactions(disk, producers=others, rounds=20)
    await other.close()
    theirs = [data for name, data in sorted(contents(disk).items()) if name.endswith(".snapshot")]
    write_files(disk, {})
    log = await with_transactions(disk)
    expected = await answers(log)
    await log.close()
    names = [name for name in sorted(contents(disk)) if name.endswith(".snapshot")]
    write_files(disk, contents(disk) | {name: theirs[at % len(theirs)] for at, name in enumerate(names)})
    assert await answers(await open_log(disk, clean=clean, recovery_point=log.log_end_offset)) == expected


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot"])
async def test_a_directory_in_place_of_a_file_that_can_be_rebuilt_is_ignored(disk: SystemDisk, suffix: str) -> None:
    log = await open_log(disk)
    filled(log, 40)
    await log.close()
    expected = await every_byte(await open_log(disk, clean=True))
    for name in contents(disk):
        if name.endswith(suffix):
            disk.remove(f"{DIRECTORY}/{name}")
            disk.make_directory(f"{DIRECTORY}/{name}")
    log = await open_log(disk, clean=True, recovery_point=log.log_end_offset)
    assert await every_byte(log) == expected
    filled(log, 40)
    assert (await every_byte(log)).startswith(expected)


async def test_leader_epochs_are_rebuilt_from_the_active_segment_too(disk: SystemDisk) -> None:
    log = await open_log(disk)
    filled(log, 40)
    log.appender.append(batch(), 7, NOW)
    await log.close()
    disk.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    log = await open_log(disk, clean=True)
    assert log.epochs.entries == ((0, 0), (7, log.log_end_offset - 1))


async def test_a_start_after_a_clean_shutdown_rebuilds_no_file(disk: SystemDisk) -> None:
    log = await with_transactions(disk)
    await log.close()
    files = contents(disk)
    log = await open_log(disk, clean=True, recovery_point=log.log_end_offset)
    await answers(log)
    await log.close()
    assert contents(disk) == files


@pytest.mark.parametrize("clean", [True, False])
async def test_duplicates_of_a_producers_last_five_batches_are_detected_after_a_restart(
    disk: SystemDisk, clean: bool
) -> None:
    """Some of the five batches are older than the last rolled segment. The sixth batch is not remembered."""
    log = await open_log(disk)
    sent = [batch(b"x" * 100, producer_id=5, producer_epoch=0, base_sequence=number) for number in range(30)]
    at = -1
    while log.segments.count < 3:
        at += 1
        log.appender.append(sent[at], 0, NOW)
    if clean:
        await log.close()
    else:
        await log.flush()
    log = await open_log(disk, clean=clean, recovery_point=log.log_end_offset)
    for again in range(at - 4, at + 1):
        appended = log.appender.append(sent[again], 0, NOW)
        assert (appended.base_offset, appended.duplicate) == (again, True)
    with pytest.raises(ApiError) as refused:
        log.appender.append(sent[at - 5], 0, NOW)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not log.appender.append(sent[at + 1], 0, NOW).duplicate


async def test_a_log_that_ends_below_its_log_start_offset_is_emptied(disk: SystemDisk) -> None:
    log = await open_log(disk)
    filled(log, 3)
    log = await open_log(disk, log_start_offset=100)
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    assert log.appender.append(batch(), 0, NOW).base_offset == 100


async def test_interrupted_swaps_and_deletions_are_completed_or_undone(disk: SystemDisk) -> None:
    log = await open_log(disk)
    filled(log, 40)
    await log.close()
    files = contents(disk)
    logs = sorted(name for name in files if name.endswith(".log"))
    write_files(
        disk,
        files
        | {
            logs[0] + ".swap": files[logs[0]] + files[logs[1]],
            logs[2] + ".deleted": b"x",
            logs[3] + ".cleaned": b"x",
            "leader-epoch-checkpoint.tmp": b"x",
            f"{99999:020d}.index": b"x",
        },
    )
    log = await open_log(disk, clean=True)
    assert logs[1] not in disk.names(DIRECTORY)
    assert not [name for name in disk.names(DIRECTORY) if name.endswith(("deleted", "cleaned", "swap", "tmp"))]
    assert f"{99999:020d}.index" not in disk.names(DIRECTORY)
    assert await every_byte(log) == b"".join(files[name] for name in logs)


async def test_an_interrupted_compaction_with_a_damaged_result_is_discarded(disk: SystemDisk) -> None:
    log = await open_log(disk)
    filled(log, 40)
    await log.close()
    files = contents(disk)
    logs = sorted(name for name in files if name.endswith(".log"))
    swap = {logs[0] + ".swap": (files[logs[0]] + files[logs[1]])[:-1], logs[0][:20] + ".index.swap": b"x"}
    write_files(disk, files | swap)
    log = await open_log(disk, clean=True)
    assert await every_byte(log) == b"".join(files[name] for name in logs)
    assert not [name for name in disk.names(DIRECTORY) if name.endswith("swap")]
    begun = {name: data for name, data in files.items() if name != logs[0]} | swap | {logs[0] + ".deleted": b"x"}
    write_files(disk, begun)
    with pytest.raises(CorruptLog, match="swap"):
        await open_log(disk, clean=True)
    assert contents(disk) == begun


async def test_producer_snapshots_are_kept_for_segment_base_offsets_and_the_end(disk: SystemDisk) -> None:
    log = await with_transactions(disk)
    await log.close()
    snapshot = file_bytes(disk.open(f"{DIRECTORY}/{log.log_end_offset:020d}.snapshot"))
    for stray in (3, 5, 10_000):
        disk.open(f"{DIRECTORY}/{stray:020d}.snapshot", create=True).append(snapshot)
    await open_log(disk, recovery_point=log.log_end_offset)
    bases = {name[:20] for name in disk.names(DIRECTORY) if name.endswith(".log")}
    snapshots = {name[:20] for name in disk.names(DIRECTORY) if name.endswith(".snapshot")}
    assert {one for one in snapshots if one not in bases} == {f"{log.log_end_offset:020d}"}
