"""Tests of the start of a controller on an empty directory, on its own files, on Kafka's files and on damaged files."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import trio

from pykbroker.core.errors import StartError
from pykbroker.core.ids import new_id
from pykbroker.core.metadata.features import NEW_CLUSTER
from pykbroker.quorum.bootstrap_file import bootstrap_content
from pykbroker.quorum.controller import Controller
from pykbroker.quorum.journal import METADATA_DIRECTORY
from pykbroker.quorum.lifecycle import Lifecycle
from pykbroker.storage.log.log import Log
from pykbroker.world.system_disk import SystemDisk
from tests.unit.core.metadata.harness import CLUSTER, NOW_MS, SNAPSHOTTED, golden, golden_harness, topic
from tests.unit.quorum.logs import (
    ENDPOINT,
    IDENTITY,
    disk_at,
    follow,
    golden_directory,
    metadata_log,
    started_controller,
)
from wire.messages.create_topics import CreateTopicsRequest
from wire.records.batch import batches
from wire.records.builder import BatchBuilder
from wire.stored.metadata import encode_metadata
from wire.stored.metadata_settings import FeatureLevelRecord

KRAFT = "kraft-snapshot-and-dynamic"


class BrokerRun:
    """One run of a broker from its start to a clean stop or a kill; it registers, unfences and creates topics."""

    def __init__(self, disk: SystemDisk, *, clean: bool, kill: bool = False, seed: int = 3) -> None:
        self.disk, self.clean, self.kill, self.seed = disk, clean, kill, seed

    async def run(self, *topics: str) -> Controller:
        controller = await started_controller(self.disk, seed=self.seed)
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(controller.run)
                nursery.start_soon(follow, controller)
                lifecycle = Lifecycle(controller, controller.images, IDENTITY, new_id(random.Random(self.seed)))
                await lifecycle.register_controller([ENDPOINT])
                await lifecycle.register([ENDPOINT], None, clean=self.clean)
                await lifecycle.unfence()
                assert lifecycle.broker_epoch == controller.images.current.cluster.brokers[1].epoch
                if topics:
                    await controller.ask(CreateTopicsRequest(topics=[topic(name) for name in topics]))
                self.serving = controller.images.current
                if not self.kill:
                    await lifecycle.shut_down()
                nursery.cancel_scope.cancel()
        if not self.kill:
            await controller.close()
        return controller


def quorum_state(path: Path) -> dict[str, object]:
    return dict(json.loads((path / METADATA_DIRECTORY / "quorum-state").read_text()))


async def test_a_new_cluster_is_bootstrapped(tmp_path: Path) -> None:
    controller = await started_controller(disk_at(tmp_path))
    image = controller.images.committed
    assert (image.offset, image.epoch, controller.epoch) == (9, 1, 1)
    assert image.features.levels == NEW_CLUSTER
    assert image.configs.cluster_default == {"min.insync.replicas": "1"}
    assert quorum_state(tmp_path) == {
        "clusterId": CLUSTER,
        "leaderId": 1,
        "leaderEpoch": 1,
        "votedId": -1,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": 1}],
        "data_version": 0,
    }
    await controller.close()
    first, second = batches((tmp_path / METADATA_DIRECTORY / "00000000000000000000.log").read_bytes(), strict=True)
    theirs = next(batches(golden("clean", "clean/__cluster_metadata-0/00000000000000000000.log")))
    assert first.payload == theirs.payload
    assert (first.attributes, first.leader_epoch, second.base_offset, second.count) == (0x20, 1, 1, 9)


async def test_every_start_has_a_new_epoch_and_keeps_all_topics(tmp_path: Path) -> None:
    disk = disk_at(tmp_path)
    run = BrokerRun(disk, clean=False)
    await run.run("a", "b")
    names = set(run.serving.topics.by_name)
    for epoch in (2, 3):
        controller = await BrokerRun(disk, clean=True).run()
        assert controller.epoch == epoch
        assert set(controller.images.committed.topics.by_name) == names == {"a", "b"}
    log = (tmp_path / METADATA_DIRECTORY / "00000000000000000000.log").read_bytes()
    assert sorted({batch.leader_epoch for batch in batches(log, strict=True)}) == [1, 2, 3]
    assert quorum_state(tmp_path)["leaderEpoch"] == 3


async def test_partition_leadership_after_a_clean_stop_and_after_a_kill(tmp_path: Path) -> None:
    disk = disk_at(tmp_path)
    run = BrokerRun(disk, clean=False)
    await run.run("a")
    assert run.serving.topics.by_name["a"].partitions[0].leader_epoch == 0
    run = BrokerRun(disk, clean=True, kill=True, seed=4)
    await run.run()
    partition = run.serving.topics.by_name["a"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.recovering) == (1, 2, False)
    run = BrokerRun(disk, clean=False, seed=5)
    await run.run()
    partition = run.serving.topics.by_name["a"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.recovering) == (1, 4, True)
    assert partition.directories == IDENTITY.directory_ids


@pytest.mark.parametrize(
    ("archive", "root", "offset", "epoch"),
    [("clean", "clean", 451, 2), (KRAFT, "snapshotted", 517, 3), (KRAFT, "dynamic-quorum", 20, 1)],
)
async def test_a_controller_starts_on_kafkas_directories(
    tmp_path: Path, archive: str, root: str, offset: int, epoch: int
) -> None:
    disk = golden_directory(archive, root, tmp_path)
    image = golden_harness(archive, f"{root}/{METADATA_DIRECTORY}/00000000000000000000.log").freeze().image
    assert image.offset == offset
    controller = await started_controller(disk)
    assert controller.epoch == epoch + 1
    assert controller.images.committed.offset == offset + 1
    assert controller.images.committed.topics == image.topics
    assert controller.images.committed.configs == image.configs
    await controller.close()


async def test_quorum_state_is_rewritten_in_version_1_if_the_log_has_dynamic_voters(tmp_path: Path) -> None:
    disk = golden_directory(KRAFT, "dynamic-quorum", tmp_path)
    state = tmp_path / "dynamic-quorum" / METADATA_DIRECTORY / "quorum-state"
    state.unlink()
    await (await started_controller(disk)).close()
    assert json.loads(state.read_text())["data_version"] == 1


async def snapshot_only(tmp_path: Path, name: str, end: int) -> SystemDisk:
    """Return a directory whose log begins where a snapshot ends."""
    disk = disk_at(tmp_path)
    directory = tmp_path / METADATA_DIRECTORY
    directory.mkdir()
    (directory / name).write_bytes(golden(KRAFT, SNAPSHOTTED + name))
    log = golden(KRAFT, SNAPSHOTTED + "00000000000000000000.log")
    rest = b"".join(bytes(batch.buffer) for batch in batches(log) if batch.base_offset >= end)
    (directory / f"{end:020}.log").write_bytes(rest)
    return disk


@pytest.mark.parametrize("end", [484, 517])
async def test_a_controller_starts_from_a_snapshot_and_the_log_after_it(tmp_path: Path, end: int) -> None:
    disk = await snapshot_only(tmp_path, f"{end:020}-0000000003.checkpoint", end)
    controller = await started_controller(disk)
    whole = golden_harness(KRAFT, SNAPSHOTTED + "00000000000000000000.log").freeze().image
    found = controller.images.committed
    assert (found.offset, found.epoch) == (whole.offset + 1, 4)
    assert (found.topics, found.configs) == (whole.topics, whole.configs)
    await controller.close()


async def test_a_gap_between_the_snapshot_and_the_log_prevents_the_start(tmp_path: Path) -> None:
    disk = await snapshot_only(tmp_path, "00000000000000000484-0000000003.checkpoint", 517)
    with pytest.raises(StartError, match="offsets from 517 to 518, but the newest snapshot ends at 484"):
        await started_controller(disk)


async def test_a_log_that_ends_before_its_snapshot_prevents_the_start(tmp_path: Path) -> None:
    disk = golden_directory(KRAFT, "snapshotted", tmp_path)
    log = tmp_path / "snapshotted" / METADATA_DIRECTORY / "00000000000000000000.log"
    log.write_bytes(log.read_bytes()[:30000])
    with pytest.raises(StartError, match="is damaged"):
        await started_controller(disk)


def flip(path: Path, position: int) -> None:
    """Flip one bit of a file."""
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


async def test_damage_below_the_synced_offset_prevents_the_start(tmp_path: Path) -> None:
    disk = disk_at(tmp_path)
    await BrokerRun(disk, clean=False).run("a")
    log = tmp_path / METADATA_DIRECTORY / "00000000000000000000.log"
    flip(log, 300)
    before = log.read_bytes()
    with pytest.raises(StartError, match="Restore __cluster_metadata-0 from a copy; nothing was changed"):
        await started_controller(disk)
    assert log.read_bytes() == before


async def test_an_unsynced_damaged_end_of_the_log_is_truncated(tmp_path: Path) -> None:
    disk = disk_at(tmp_path)
    await BrokerRun(disk, clean=False).run("a")
    log = tmp_path / METADATA_DIRECTORY / "00000000000000000000.log"
    log.write_bytes(log.read_bytes() + bytes(100))
    await BrokerRun(disk, clean=False, seed=4).run("b")
    run = BrokerRun(disk, clean=True, seed=5)
    await run.run()
    assert set(run.serving.topics.by_name) == {"a", "b"}


async def test_a_log_that_ends_below_the_synced_offset_prevents_the_start(tmp_path: Path) -> None:
    disk = disk_at(tmp_path)
    await BrokerRun(disk, clean=False).run("a")
    log = tmp_path / METADATA_DIRECTORY / "00000000000000000000.log"
    first = next(batches(log.read_bytes()))
    log.write_bytes(first.buffer)
    with pytest.raises(StartError, match="ends at offset 1; all below [0-9]+ was synced. Restore"):
        await started_controller(disk)


async def test_a_kill_loses_no_committed_change(tmp_path: Path) -> None:
    disk = disk_at(tmp_path)
    await BrokerRun(disk, clean=False, kill=True).run("a")
    run = BrokerRun(disk, clean=False, kill=True)
    await run.run("b")
    assert set(run.serving.topics.by_name) == {"a", "b"}


@pytest.mark.parametrize("root", ["snapshotted", "dynamic-quorum"])
async def test_the_metadata_log_of_another_cluster_prevents_the_start(tmp_path: Path, root: str) -> None:
    disk = golden_directory(KRAFT, root, tmp_path)
    await (await started_controller(disk)).close()
    with pytest.raises(StartError, match=r"belongs to cluster MkU3OEVBNTcwNTJENDM2Qk, and meta.properties says"):
        await started_controller(disk, cluster_id="another")


async def test_a_quorum_state_with_other_voters_prevents_the_start(tmp_path: Path) -> None:
    disk = disk_at(tmp_path)
    await (await started_controller(disk)).close()
    state = tmp_path / METADATA_DIRECTORY / "quorum-state"
    state.write_text(state.read_text().replace('{"voterId":1}', '{"voterId":1},{"voterId":2}'))
    with pytest.raises(StartError, match=r"voters \[1, 2\], but node 1 can only run alone"):
        await started_controller(disk)


@pytest.mark.parametrize("name", [f"{METADATA_DIRECTORY}/quorum-state", "bootstrap.checkpoint"])
async def test_a_damaged_file_prevents_the_start_and_the_error_names_its_path(tmp_path: Path, name: str) -> None:
    disk = disk_at(tmp_path)
    (tmp_path / METADATA_DIRECTORY).mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"junk")
    with pytest.raises(StartError, match=f"^{tmp_path}/{name} is damaged .*: remove it, and "):
        await started_controller(disk)
    assert (tmp_path / name).read_bytes() == b"junk"


async def test_a_newer_metadata_version_prevents_the_start_and_changes_nothing(tmp_path: Path) -> None:
    disk = disk_at(tmp_path)
    newer = FeatureLevelRecord(name="metadata.version", feature_level=31)
    (tmp_path / "bootstrap.checkpoint").write_bytes(bootstrap_content([newer], NOW_MS))
    with pytest.raises(StartError, match="at metadata.version 31, and this broker supports 7 to 30"):
        await started_controller(disk)
    assert not (tmp_path / METADATA_DIRECTORY / "quorum-state").exists()


async def test_a_new_cluster_has_the_levels_of_its_bootstrap_file(tmp_path: Path) -> None:
    disk = disk_at(tmp_path)
    levels = FeatureLevelRecord(name="metadata.version", feature_level=25)
    (tmp_path / "bootstrap.checkpoint").write_bytes(bootstrap_content([levels], NOW_MS))
    run = BrokerRun(disk, clean=False)
    controller = await run.run("a")
    assert controller.images.committed.features.levels == {"metadata.version": 25}
    assert controller.images.committed.configs.cluster_default == {}
    again = BrokerRun(disk, clean=True)
    await again.run()
    assert again.serving.topics.by_name["a"].partitions[0].isr == (1,)


async def test_an_incomplete_metadata_transaction_is_aborted(tmp_path: Path) -> None:
    disk = disk_at(tmp_path)
    await (await started_controller(disk)).close()
    log = await metadata_log(disk)
    begin = bytes.fromhex("01170000")
    config = encode_metadata(FeatureLevelRecord(name="group.version", feature_level=9), 0)
    append(log, begin, config)
    await log.close()
    controller = await started_controller(disk)
    assert controller.images.committed.features.level("group.version") == 1
    await controller.close()
    await (await started_controller(disk)).close()


async def test_records_of_unknown_types_are_ignored(tmp_path: Path) -> None:
    disk = disk_at(tmp_path)
    await (await started_controller(disk)).close()
    log = await metadata_log(disk)
    append(log, bytes.fromhex("01ff0100") + b"whatever")
    await log.close()
    controller = await started_controller(disk)
    assert controller.images.committed.features.levels == NEW_CLUSTER
    await controller.close()


def append(log: Log, *values: bytes) -> None:
    builder = BatchBuilder()
    for value in values:
        builder.append(None, value, timestamp=NOW_MS)
    log.append_as_leader(builder.build(), 1)


async def test_a_record_that_cannot_be_decoded_prevents_the_start(tmp_path: Path) -> None:
    disk = disk_at(tmp_path)
    await (await started_controller(disk)).close()
    log = await metadata_log(disk)
    append(log, bytes.fromhex("01020001"))
    await log.close()
    with pytest.raises(StartError, match="Restore it from a copy; nothing was changed"):
        await started_controller(disk)
