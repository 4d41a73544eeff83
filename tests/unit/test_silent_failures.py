"""Tests of faults in log directories that Apache Kafka 4.3 does not report.

Each test checks the log message or error, that the faulty partitions are offline, and that all others are served.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pykbroker.core.errors import StartError
from pykbroker.quorum.journal import METADATA_DIRECTORY
from pykbroker.replica.replicas import Replicas
from tests.unit.apis.conftest import Client, batch
from tests.unit.directories import consume, golden_configs, offset_of, serving
from tests.unit.storage.golden import expected, unpack
from wire.error_codes import ErrorCode
from wire.messages.delete_topics import DeleteTopicsRequest
from wire.messages.describe_log_dirs import DescribeLogDirsRequest
from wire.records.batch import batches

ROLLS = "rolls", 0
"""The partition with the fault, which has many segments."""
OFFLINE = -ErrorCode.KAFKA_STORAGE_ERROR


async def check_all_but(client: Client, *left_out: tuple[str, int]) -> None:
    """Check that all other partitions are served as Kafka served them."""
    for topic, facts in expected("clean").items():
        for index, isolations in facts["p"].items():
            if (topic, int(index)) not in left_out:
                for isolation, wanted in isolations.items():
                    found = await consume(client, topic, int(index), committed=isolation == "read_committed")
                    assert found == wanted, f"{topic}-{index}, {isolation}"


async def check_offline(client: Client, topic: str, partition: int) -> None:
    """Check that the partition refuses Fetch, ListOffsets and Produce."""
    assert await offset_of(client, topic, partition, -1, committed=False) == OFFLINE
    assert (await client.fetch(topic, 0, partition=partition)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    answer = await client.produce(topic, batch(b"v"), partition=partition)
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    return unpack("clean", tmp_path)


def segments(directory: Path, suffix: str = ".log") -> list[Path]:
    return sorted((directory / "rolls-0").glob(f"*{suffix}"))


def remove(directory: Path, pattern: str) -> int:
    """Delete the files that match the pattern; return their number."""
    found = list(directory.glob(pattern))
    for path in found:
        path.unlink()
    return len(found)


def names(directory: Path) -> list[str]:
    """Return the names in a directory."""
    return sorted(os.listdir(directory))


def flip(path: Path, position: int) -> None:
    """Flip one bit of a file."""
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


async def test_a_missing_transaction_index_is_rebuilt(clean: Path) -> None:
    assert remove(clean, "*/*.txnindex") > 0
    async with serving(clean) as client:
        await check_all_but(client)


@pytest.mark.parametrize(
    "garbage",
    [random.Random(1).randbytes(20), bytes(20), b"\xff" * 16, b"\x00\x00\x00\x0b" * 5],
    ids=["random", "zeros", "ones", "repeated"],
)
async def test_random_bytes_in_a_sealed_index_are_detected_and_the_index_is_rebuilt(
    clean: Path, garbage: bytes
) -> None:
    for suffix in (".index", ".timeindex"):
        for index in segments(clean, suffix)[:-1]:
            index.write_bytes(garbage)
    async with serving(clean) as client:
        await check_all_but(client)


async def test_another_cluster_id_is_refused(clean: Path) -> None:
    """Kafka stores the cluster id only in meta.properties. pykbroker stores it a second time at its first start."""
    async with serving(clean):
        pass
    properties = clean / "meta.properties"
    before = properties.read_text()
    properties.write_text(re.sub("cluster.id=.*", "cluster.id=AAAAAAAAAAAAAAAAAAAAAg", before))
    with pytest.RaisesGroup(pytest.RaisesExc(StartError, match="put the cluster.id back")):
        async with serving(clean):
            pass
    assert ".kafka_cleanshutdown" in names(clean)
    properties.write_text(before)
    async with serving(clean) as client:
        await check_all_but(client)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "does not say which topic it is of"),
        ("", "does not say which topic it is of"),
        ("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAw", "belongs to another topic of the same name"),
    ],
    ids=["missing", "empty", "another"],
)
async def test_a_directory_with_an_unknown_topic_id_is_neither_served_nor_replaced(
    clean: Path, content: str | None, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    metadata = clean / "rolls-0" / "partition.metadata"
    before = metadata.read_text()
    kept = [path.read_bytes() for path in segments(clean)]
    metadata.unlink()
    if content is not None:
        metadata.write_text(content)
    for _life in range(2):
        async with serving(clean) as client:
            await check_offline(client, *ROLLS)
            await check_all_but(client, ROLLS)
        assert "rolls-0" in caplog.text
        assert says in caplog.text
        assert not [name for name in names(clean) if re.match("rolls-0.*-stray", name)]
    assert [path.read_bytes() for path in segments(clean)] == kept
    metadata.write_text(before)
    async with serving(clean) as client:
        await check_all_but(client)


async def test_a_missing_partition_directory_is_not_created_again(
    clean: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.move(clean / "rolls-0", tmp_path / "aside")
    for _life in range(3):
        async with serving(clean) as client:
            await check_offline(client, *ROLLS)
            await check_all_but(client, ROLLS)
        assert "rolls-0" in caplog.text
        assert "its directory is missing, though it may have had records" in caplog.text
        assert not (clean / "rolls-0").exists()
    shutil.move(tmp_path / "aside", clean / "rolls-0")
    async with serving(clean) as client:
        await check_all_but(client)


async def test_a_missing_directory_of_an_empty_partition_is_created_again(clean: Path) -> None:
    async with serving(clean) as client:
        await client.create("new")
    shutil.rmtree(clean / "new-0")
    async with serving(clean) as client:
        assert (await client.produce("new", batch(b"v"))).error_code == 0
        await check_all_but(client)


async def test_a_topic_with_a_missing_directory_can_be_deleted_and_created_again(clean: Path) -> None:
    shutil.rmtree(clean / "rolls-0")
    async with serving(clean) as client:
        await client.call(DeleteTopicsRequest(topic_names=["rolls"], timeout_ms=10_000), 5)
        await client.create("rolls")
        assert (await client.produce("rolls", batch(b"v"))).error_code == 0
    async with serving(clean) as client:
        assert await offset_of(client, "rolls", 0, -1, committed=False) == 1


@pytest.mark.parametrize("records", [0, 1])
async def test_partitions_of_a_directory_removed_from_log_dirs_are_not_created_again(
    tmp_path: Path, records: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker cannot know whether these partitions had records."""
    one, other = tmp_path / "one", tmp_path / "other"
    async with serving(one, other) as client:
        await client.create("t", 6)
        for index in range(6):
            for _ in range(records):
                assert (await client.produce("t", batch(b"v"), partition=index)).error_code == 0
    moved = [int(name[2:]) for name in names(other) if name.startswith("t-")]
    assert len(moved) == 3
    for _life in range(2):
        async with serving(one) as client:
            for index in range(6):
                if index in moved:
                    await check_offline(client, "t", index)
                else:
                    assert await offset_of(client, "t", index, -1, committed=False) == records
        assert f"t-{moved[0]}: staying offline in {one}: it is assigned to the log directory" in caplog.text
    async with serving(one, other) as client:
        assert [await offset_of(client, "t", index, -1, committed=False) for index in range(6)] == [records] * 6


async def spread(one: Path, other: Path) -> list[int]:
    """Create topic "t" with six partitions and a record in each, in two log directories.

    Return the partitions in the directory `other`.
    """
    async with serving(one, other) as client:
        await client.create("t", 6)
        for index in range(6):
            assert (await client.produce("t", batch(b"v"), partition=index)).error_code == 0
    return [int(name[2:]) for name in names(other) if name.startswith("t-")]


async def check_rest(client: Client, away: list[int]) -> None:
    """Check that these partitions of the topic are offline and all others are served."""
    for index in range(6):
        if index in away:
            await check_offline(client, "t", index)
        else:
            assert await offset_of(client, "t", index, -1, committed=False) == 1


async def none_misplaced(*_: object) -> dict[object, object]:
    """Return no misplaced partition, as if each one were in the log directory that the metadata assigns to it."""
    return {}


@pytest.mark.parametrize("assigned", [True, False], ids=["assigned", "not yet assigned"])
async def test_an_empty_mount_point_is_not_served_as_empty_partitions(
    tmp_path: Path, assigned: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The mount point of the missing disk is an empty directory, which is formatted as a new log directory."""
    one, other = tmp_path / "one", tmp_path / "other"
    with monkeypatch.context() as patch:
        if not assigned:
            patch.setattr(Replicas, "misplaced", none_misplaced)
        moved = await spread(one, other)
    unmounted = other.rename(tmp_path / "unmounted")
    for _life in range(3):
        async with serving(one, other) as client:
            await check_rest(client, moved)
            assert not [name for name in names(other) if name.startswith("t-")]
    assert f"{other} is empty and becomes a new log directory" in caplog.text
    assert "mount its disk" in caplog.text
    shutil.rmtree(other)
    unmounted.rename(other)
    for _life in range(2):
        async with serving(one, other) as client:
            assert [await offset_of(client, "t", index, -1, committed=False) for index in range(6)] == [1] * 6
            await client.create(f"new{_life}", 2)


async def test_only_a_directory_that_cannot_be_opened_is_offline(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A mount point may be anything while no disk is mounted; here it is a file."""
    one, other, aside = tmp_path / "one", tmp_path / "other", tmp_path / "aside"
    moved = await spread(one, other)
    assert 0 < len(moved) < 6
    other.rename(aside)
    other.touch()
    for _life in range(2):
        async with serving(one, other) as client:
            await check_rest(client, moved)
            described = (await client.call(DescribeLogDirsRequest(topics=None), 5)).results
            assert [(each.log_dir, each.error_code) for each in described] == [
                (str(one), 0),
                (str(other), ErrorCode.KAFKA_STORAGE_ERROR),
            ]
    assert f"{other} cannot be opened" in caplog.text
    other.unlink()
    aside.rename(other)
    async with serving(one, other) as client:
        assert [await offset_of(client, "t", index, -1, committed=False) for index in range(6)] == [1] * 6
    one.rename(aside)
    one.touch()
    with pytest.RaisesGroup(pytest.RaisesExc(StartError, match="cannot be read or written")):
        async with serving(one, other):
            pass


async def test_a_broker_without_its_metadata_log_does_not_start(clean: Path, tmp_path: Path) -> None:
    before = names(clean)
    shutil.move(clean / METADATA_DIRECTORY, tmp_path / "aside")
    with pytest.RaisesGroup(pytest.RaisesExc(StartError, match="which describes them, is missing or empty")):
        async with serving(clean):
            pass
    shutil.move(tmp_path / "aside", clean / METADATA_DIRECTORY)
    assert names(clean) == before
    async with serving(clean) as client:
        await check_all_but(client)


@pytest.mark.parametrize("harm", [Path.unlink, partial(Path.write_bytes, data=b"")])
async def test_a_broker_with_an_empty_metadata_log_does_not_start(clean: Path, harm: Callable[[Path], object]) -> None:
    before = names(clean)
    harm(clean / METADATA_DIRECTORY / f"{0:020d}.log")
    with pytest.RaisesGroup(pytest.RaisesExc(StartError, match="which describes them, is missing or empty")):
        async with serving(clean):
            pass
    assert names(clean) == before


async def test_damage_below_the_recovery_point_is_not_served_and_truncates_no_records(
    clean: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The records before the damage are served.

    A consumer that continues gets an error, and the log end offset is unchanged.
    """
    damaged = segments(clean)[1]
    flip(damaged, 100)
    kept = damaged.read_bytes()
    async with serving(clean) as client:
        before = await client.fetch(*ROLLS[:1], 0)
        assert before.error_code == 0
        first = int(damaged.stem)
        assert [one.last_offset + 1 for one in batches(before.records)][-1] <= first
        assert (await client.fetch("rolls", first)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await check_all_but(client, ROLLS)
    assert "rolls-0" in caplog.text
    assert "checksum" in caplog.text
    assert damaged.read_bytes() == kept


def leave_as_after_a_kill(directory: Path, recovery_point: int) -> None:
    """Leave the directory as a kill does after all records below an offset were fsynced."""
    (directory / ".kafka_cleanshutdown").unlink()
    checkpoint = directory / "recovery-point-offset-checkpoint"
    checkpoint.write_text(re.sub(r"rolls 0 \d+", f"rolls 0 {recovery_point}", checkpoint.read_text()))


async def test_after_a_kill_a_flipped_byte_below_the_recovery_point_is_damage(
    clean: Path, caplog: pytest.LogCaptureFixture
) -> None:
    newest = segments(clean)[-1]
    leave_as_after_a_kill(clean, 60)
    flip(newest, 100)
    kept = [path.read_bytes() for path in segments(clean)]
    async with serving(clean) as client:
        await check_offline(client, *ROLLS)
        await check_all_but(client, ROLLS)
    assert "was synced" in caplog.text
    assert [path.read_bytes() for path in segments(clean)] == kept


async def test_after_a_kill_a_flipped_byte_above_the_recovery_point_is_truncated(
    clean: Path, caplog: pytest.LogCaptureFixture
) -> None:
    newest = segments(clean)[-1]
    base = int(newest.stem)
    first = next(batches(newest.read_bytes()))
    leave_as_after_a_kill(clean, base)
    flip(newest, first.size + 100)
    async with serving(clean) as client:
        end = await offset_of(client, "rolls", 0, -1, committed=False)
        assert end == first.last_offset + 1
        assert (await consume(client, *ROLLS, committed=False))["count"] == end
        await check_all_but(client, ROLLS)
    assert f"truncated to offset {end}" in caplog.text


WITNESSES = {
    "replication-offset-checkpoint": "the checkpoint of high watermarks",
    "rolls-0/*.snapshot": "a producer snapshot",
    "rolls-0/leader-epoch-checkpoint": "a leader epoch",
}
"""The files that show how far a log reached."""


@pytest.mark.parametrize("left", [*WITNESSES, None])
async def test_after_a_kill_a_missing_last_segment_is_reported_if_any_file_shows_that_it_existed(
    clean: Path, caplog: pytest.LogCaptureFixture, left: str | None
) -> None:
    newest = segments(clean)[-1]
    base = int(newest.stem)
    leave_as_after_a_kill(clean, base)
    for pattern in (f"rolls-0/{newest.stem}.*", *(name for name in WITNESSES if name != left)):
        remove(clean, pattern)
    async with serving(clean) as client:
        assert await offset_of(client, "rolls", 0, -1, committed=False) == base
    lines = [line for line in caplog.messages if "rolls-0 ends at offset" in line]
    assert [f"ends at offset {base}, and {WITNESSES[left]}" in line for line in lines if left] == [True] * len(lines)
    assert len(lines) == (left is not None)


@pytest.mark.parametrize(
    "make",
    [partial(Path.mkdir, parents=True), lambda path: shutil.copytree(path.parent / "rolls-0", path)],
    ids=["empty", "a copy of a partition"],
)
async def test_a_directory_that_is_not_a_partition_is_ignored(
    clean: Path, make: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("backup", "rolls-0.bak", "rolls-x", "notes"):
        make(clean / name)
    async with serving(clean) as client:
        await check_all_but(client)
    for name in ("backup", "rolls-0.bak", "rolls-x", "notes"):
        assert f"{clean}/{name} is not a partition's directory and is ignored" in caplog.text
        assert (clean / name).exists()


async def test_a_start_does_not_wait_for_the_session_of_a_killed_broker(tmp_path: Path) -> None:
    """The session of the killed broker would end long after this test."""
    configs = {**golden_configs(), "broker.session.timeout.ms": "3600000"}
    async with serving(unpack("unclean", tmp_path), configs=configs) as client:
        assert (await client.fetch("rolls", 0)).error_code == 0
