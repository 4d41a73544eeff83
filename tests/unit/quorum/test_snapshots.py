"""Tests of snapshots of the metadata log: when they are taken, what they allow to delete, and how a
start reads them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from pykbroker.core.config.config import BrokerConfig
from pykbroker.core.errors import StartError
from pykbroker.core.log.epochs import OffsetAndEpoch
from pykbroker.core.metadata.image import MetadataImage
from pykbroker.quorum.controller import Controller
from pykbroker.quorum.journal import METADATA_DIRECTORY
from pykbroker.quorum.rules import LogRules
from pykbroker.quorum.snapshot_file import decode_snapshot, encode_snapshot, snapshot_name
from pykbroker.quorum.snapshots import Snapshots
from pykbroker.world.system_disk import SystemDisk
from tests.unit.core.metadata.harness import NOW_MS, SNAPSHOTTED, golden, topic
from tests.unit.quorum.logs import (
    InlineOffLoop,
    disk_at,
    golden_directory,
    metadata_log,
    running_controller,
    started_controller,
)
from wire.errors import DecodeError
from wire.messages.create_topics import CreateTopicsRequest
from wire.records.batch import Batch, batches
from wire.records.builder import BatchBuilder
from wire.stored.control import KRaftVersionRecord, VotersRecord
from wire.stored.metadata import encode_metadata
from wire.stored.metadata_settings import FeatureLevelRecord

KRAFT = "kraft-snapshot-and-dynamic"
OFTEN = LogRules(snapshot_bytes=300)
HOUR_S = 3600


async def create(controller: Controller, *names: str) -> None:
    for name in names:
        await controller.ask(CreateTopicsRequest(topics=[topic(name)], timeout_ms=60_000))
        await wait_all_tasks_blocked()


def found(disk: SystemDisk) -> list[OffsetAndEpoch]:
    return Snapshots(disk, InlineOffLoop()).ids()


def metadata(disk: SystemDisk) -> Path:
    return Path(disk.path) / METADATA_DIRECTORY


async def read_again(disk: SystemDisk) -> MetadataImage:
    """Return the image that the next start reads."""
    controller = await started_controller(disk)
    await controller.close()
    return controller.images.committed


def same(one: MetadataImage, other: MetadataImage) -> bool:
    return (one.topics, one.configs, one.features, one.producer_ids, one.records, one.cluster) == (
        other.topics,
        other.configs,
        other.features,
        other.producer_ids,
        other.records,
        other.cluster,
    )


# ---- The file of a snapshot


@pytest.mark.parametrize(
    "name",
    [
        f"{SNAPSHOTTED}00000000000000000484-0000000003.checkpoint",
        f"{SNAPSHOTTED}00000000000000000517-0000000003.checkpoint",
        "dynamic-quorum/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint",
    ],
)
def test_a_snapshot_has_the_same_batches_as_kafkas(name: str) -> None:
    theirs = golden(KRAFT, name)
    content = decode_snapshot(theirs)
    epoch = int(name.split("-")[-1].removesuffix(".checkpoint"))
    values = [bytes(value or b"") for value in content.values]
    ours = b"".join(encode_snapshot(values, epoch, content.time_ms, NOW_MS, content.quorum))
    assert [without_times(batch) for batch in batches(ours)] == [without_times(batch) for batch in batches(theirs)]


def without_times(batch: Batch) -> tuple[object, ...]:
    return (
        batch.base_offset,
        batch.leader_epoch,
        batch.attributes,
        batch.last_offset_delta,
        batch.producer_id,
        batch.base_sequence,
        batch.count,
        bytes(batch.payload),
    )


def test_the_records_of_a_snapshot_are_split_into_batches() -> None:
    parts = encode_snapshot([bytes(50)] * 3000, 1, 0, NOW_MS)
    assert [Batch.read(part).count for part in parts] == [1, 1024, 1024, 952, 1]
    assert len(encode_snapshot([bytes(1 << 19)] * 5, 1, 0, NOW_MS)) == 7
    assert decode_snapshot(b"".join(parts)).values == (bytes(50),) * 3000


@pytest.mark.parametrize("cut", [0, 1, 82, 83, 5854, -1])
def test_a_truncated_snapshot_is_refused(cut: int) -> None:
    theirs = golden(KRAFT, f"{SNAPSHOTTED}00000000000000000484-0000000003.checkpoint")
    with pytest.raises(DecodeError):
        decode_snapshot(theirs[:cut])


async def test_a_snapshot_is_renamed_once_it_is_complete_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    disk = disk_at(tmp_path)
    disk.make_directory(METADATA_DIRECTORY)
    snapshots, one = Snapshots(disk, InlineOffLoop()), OffsetAndEpoch(7, 1)
    (metadata(disk) / "00000000000000000007-0000000001.checkpoint.part").write_bytes(b"cut off")
    await snapshots.write(one, encode_snapshot([b"\x01\x14\x00\x00"], 1, 5, NOW_MS))
    assert os.listdir(metadata(disk)) == ["00000000000000000007-0000000001.checkpoint"]
    assert stat.S_IMODE(os.stat(metadata(disk) / snapshot_name(one)).st_mode) == 0o400
    assert await snapshots.time_ms(one) == 5
    assert (await snapshots.read(one)).values == (b"\x01\x14\x00\x00",)


# ---- When a snapshot is taken


def test_the_limits_are_set_by_kafkas_configs() -> None:
    assert LogRules.of(BrokerConfig.from_mapping({})) == LogRules()
    texts = {
        "metadata.log.segment.bytes": "8388608",
        "metadata.log.segment.ms": "1",
        "metadata.max.retention.ms": "-1",
        "metadata.max.retention.bytes": "2",
        "metadata.log.max.record.bytes.between.snapshots": "3",
        "metadata.log.max.snapshot.interval.ms": "4",
    }
    assert LogRules.of(BrokerConfig.from_mapping(texts)) == LogRules(
        segment_bytes=8_388_608,
        segment_ms=1,
        retention_ms=-1,
        retention_bytes=2,
        snapshot_bytes=3,
        snapshot_interval_ms=4,
    )
    small = BrokerConfig.from_mapping({**texts, "internal.metadata.log.segment.bytes": "100"})
    assert LogRules.of(small).segment_bytes == 100


async def test_a_snapshot_is_taken_after_enough_record_bytes(tmp_path: Path) -> None:
    disk = disk_at(tmp_path)
    async with running_controller(disk, rules=OFTEN) as controller:
        await create(controller, "a", "b", "c", "d", "e")
        last = controller.images.committed
    assert len(found(disk)) > 1
    assert found(disk)[-1].offset <= last.offset + 1
    assert same(await read_again(disk), last)


async def test_a_snapshot_is_taken_after_an_interval_only_if_the_metadata_changed(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    disk = disk_at(tmp_path)
    async with running_controller(disk) as controller:
        await trio.sleep(0.9 * HOUR_S)
        assert found(disk) == []
        await trio.sleep(0.2 * HOUR_S)
        (first,) = found(disk)
        size = (metadata(disk) / "00000000000000000000.log").stat().st_size
        await trio.sleep(24 * HOUR_S)
        assert found(disk) == [first]
        assert (metadata(disk) / "00000000000000000000.log").stat().st_size == size
        await create(controller, "a")
        await trio.sleep(1.1 * HOUR_S)
        assert len(found(disk)) == 2


async def test_a_start_with_a_long_log_takes_a_snapshot(tmp_path: Path) -> None:
    disk = disk_at(tmp_path)
    async with running_controller(disk, rules=LogRules(snapshot_interval_ms=0)) as controller:
        await create(controller, "a", "b", "c")
    assert found(disk) == []
    async with running_controller(disk, rules=OFTEN) as controller:
        await wait_all_tasks_blocked()
        assert found(disk)[0].offset > 0


async def test_a_snapshot_that_cannot_be_written_is_logged_and_retried_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = disk_at(tmp_path)

    async def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async with running_controller(disk, rules=OFTEN) as controller:
        with monkeypatch.context() as patched:
            patched.setattr(Snapshots, "write", refuse)
            await create(controller, "a", "b", "c")
        assert "No space left on device" in caplog.text
        await create(controller, "d", "e", "f")
        assert found(disk)


# ---- What a snapshot allows to delete


async def test_the_log_is_truncated_up_to_a_snapshot_when_log_and_snapshots_exceed_their_limit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = disk_at(tmp_path)
    rules = LogRules(segment_bytes=1000, snapshot_bytes=1000, retention_bytes=4000)
    with caplog.at_level("INFO"):
        async with running_controller(disk, rules=rules) as controller:
            await create(controller, *(f"t{number}" for number in range(40)))
            last = controller.images.committed
    segments = sorted(metadata(disk).glob("*.log"))
    assert 0 < int(segments[0].stem) <= found(disk)[0].offset
    assert not list(metadata(disk).glob("*.deleted"))
    assert "metadata.max.retention.bytes allows 4000" in caplog.text
    assert same(await read_again(disk), last)
    async with running_controller(disk, rules=rules) as controller:
        assert set(controller.images.current.topics.by_name) == set(last.topics.by_name)
        assert controller.images.current.topics.by_name["t39"].partitions[0].leader == 1


async def test_old_snapshots_are_deleted_except_the_newest(tmp_path: Path, autojump_clock: MockClock) -> None:
    disk = disk_at(tmp_path)

    def wall_ms() -> int:
        return NOW_MS + int(trio.current_time() * 1000)

    async with running_controller(disk, rules=LogRules(retention_ms=6 * HOUR_S * 1000), wall_ms=wall_ms) as controller:
        for name in ("a", "b", "c"):
            await create(controller, name)
            await trio.sleep(2 * HOUR_S)
        assert len(found(disk)) == 3
        await trio.sleep(24 * HOUR_S)
        (left,) = found(disk)
        assert left.offset == controller.images.current.offset + 1


async def test_the_log_is_not_truncated_up_to_a_damaged_snapshot(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = disk_at(tmp_path)
    async with running_controller(disk, rules=OFTEN) as controller:
        await create(controller, "a", "b", "c")
        last = controller.images.committed
    oldest, *younger = found(disk)
    assert younger
    controller = await started_controller(disk, rules=LogRules(retention_bytes=10))
    for snapshot in younger:
        flip(metadata(disk) / snapshot_name(snapshot), 200)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(controller.snapshotter.run)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    await controller.close()
    assert found(disk) == [oldest]
    assert caplog.text.count("is damaged") == len(younger)
    assert same(await read_again(disk), last)


# ---- How a start reads snapshots


def flip(path: Path, position: int) -> None:
    """Flip one bit of a file."""
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.chmod(0o600)
    path.write_bytes(content)


@pytest.mark.parametrize("position", [3, 15, 30, 70, 90, 200, -1], ids=str)
async def test_a_start_falls_back_from_a_damaged_snapshot_to_the_previous_one(
    tmp_path: Path, position: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = disk_at(tmp_path)
    async with running_controller(disk, rules=OFTEN) as controller:
        await create(controller, "a", "b", "c", "d")
        last = controller.images.committed
    *_, before, newest = found(disk)
    flip(metadata(disk) / snapshot_name(newest), position)
    assert same(await read_again(disk), last)
    assert found(disk)[-1] == before
    assert f"{snapshot_name(newest)} is damaged" in caplog.text
    assert (metadata(disk) / f"{snapshot_name(newest)}.damaged").exists()


async def test_a_start_reads_the_whole_log_if_all_snapshots_are_damaged(tmp_path: Path) -> None:
    disk = disk_at(tmp_path)
    async with running_controller(disk, rules=OFTEN) as controller:
        await create(controller, "a", "b", "c")
        last = controller.images.committed
    for snapshot in found(disk):
        flip(metadata(disk) / snapshot_name(snapshot), 100)
    assert same(await read_again(disk), last)


async def test_a_start_is_refused_if_the_log_is_truncated_and_all_snapshots_are_damaged(tmp_path: Path) -> None:
    disk = disk_at(tmp_path)
    rules = LogRules(segment_bytes=1000, snapshot_bytes=1000, retention_bytes=2000)
    async with running_controller(disk, rules=rules) as controller:
        await create(controller, *(f"t{number}" for number in range(40)))
    before = found(disk)
    for snapshot in before:
        flip(metadata(disk) / snapshot_name(snapshot), 100)
    with pytest.raises(StartError, match="no undamaged snapshot has the records before it"):
        await started_controller(disk)
    assert found(disk) == before


async def test_a_start_removes_an_incomplete_snapshot(tmp_path: Path) -> None:
    disk = disk_at(tmp_path)
    await (await started_controller(disk)).close()
    part = metadata(disk) / "00000000000000000484-0000000003-1234567.checkpoint.part"
    part.write_bytes(b"cut off")
    await (await started_controller(disk)).close()
    assert not part.exists()


# ---- Unknown records


async def test_unknown_records_and_feature_levels_survive_a_snapshot(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = disk_at(tmp_path)
    await (await started_controller(disk)).close()
    log = await metadata_log(disk)
    builder = BatchBuilder()
    unknown = bytes.fromhex("01ff0100") + b"whatever"
    for value in (
        unknown,
        encode_metadata(FeatureLevelRecord(name="group.version", feature_level=7), 0),
        encode_metadata(FeatureLevelRecord(name="new.version", feature_level=2), 0),
        unknown,
    ):
        builder.append(None, value, timestamp=NOW_MS)
    log.append_as_leader(builder.build(), 1)
    await log.close()
    async with running_controller(disk, rules=OFTEN) as controller:
        await create(controller, "a", "b", "c", "d")
    assert "the cluster has feature new.version at level 2, which this broker does not support" in caplog.text
    (metadata(disk) / "00000000000000000000.log").write_bytes(b"")
    (metadata(disk) / "00000000000000000000.log").rename(metadata(disk) / f"{found(disk)[-1].offset:020}.log")
    for gone in ("quorum-state", "leader-epoch-checkpoint"):
        (metadata(disk) / gone).unlink(missing_ok=True)  # A short log has no leader epoch checkpoint.
    image = await read_again(disk)
    assert image.records.unknown == (unknown, unknown)
    assert (image.features.level("group.version"), image.features.level("new.version")) == (7, 2)


async def test_dynamic_voters_in_the_log_are_kept_in_snapshots(tmp_path: Path) -> None:
    disk = golden_directory(KRAFT, "dynamic-quorum", tmp_path)
    async with running_controller(disk, rules=OFTEN) as controller:
        await create(controller, "a", "b", "c")
    version, voters = (await Snapshots(disk, InlineOffLoop()).read(found(disk)[-1])).quorum
    assert isinstance(version, KRaftVersionRecord)
    assert isinstance(voters, VotersRecord)
    assert (version.kraft_version, [voter.voter_id for voter in voters.voters]) == (1, [1])
