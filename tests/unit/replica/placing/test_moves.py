"""Tests of moves of partitions between two log directories: responses to clients, and directories after a crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

from pykbroker.replica.placing.move import Move
from pykbroker.storage.directory.log_directory import LogDirectory
from pykbroker.world import system
from tests.unit.apis.conftest import Client, batch
from tests.unit.directories import consume, serving
from wire.error_codes import ErrorCode
from wire.messages.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
from wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from wire.messages.describe_log_dirs import DescribeLogDirsRequest

Held = dict[str, set[tuple[str, bool]]]
"""The partitions in each directory, and whether each is a copy."""


class Pause:
    """A double that pauses copies after each round until `go` is set. `reached` is set when a copy waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go, self.reached = trio.Event(), trio.Event()
        catch_up = Move.catch_up

        async def paused(move: Move) -> int:
            copied = await catch_up(move)
            self.reached.set()
            await self.go.wait()
            return copied

        monkeypatch.setattr(Move, "catch_up", paused)


@pytest.fixture
def dirs(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "one", tmp_path / "two"


async def alter(client: Client, *moves: tuple[Path | str, str, int], version: int = 2) -> list[int]:
    """Move each (path, topic, partition) and return the error codes."""
    dirs = [AlterReplicaLogDir(str(path), [AlterReplicaLogDirTopic(topic, [index])]) for path, topic, index in moves]
    response = await client.call(AlterReplicaLogDirsRequest(dirs), version)
    return [one.error_code for topic in response.results for one in topic.partitions]


async def held(client: Client) -> Held:
    response = await client.call(DescribeLogDirsRequest(topics=None), 4)
    return {
        Path(one.log_dir).name: {
            (f"{topic.name}-{part.partition_index}", part.is_future_key)
            for topic in one.topics
            for part in topic.partitions
        }
        for one in response.results
    }


async def until(client: Client, expected: Held) -> None:
    with trio.fail_after(10):
        while await held(client) != expected:
            await trio.lowlevel.checkpoint()


async def place(client: Client, dirs: tuple[Path, Path], topic: str = "t") -> tuple[Path, Path]:
    """Return (the directory of a new topic's only partition, the other directory)."""
    await client.create(topic, 1)
    here = next(one for one in dirs if (one / f"{topic}-0").exists())
    return here, dirs[1 - dirs.index(here)]


def at(here: Path, *found: tuple[str, bool], other: Path, there: tuple[tuple[str, bool], ...] = ()) -> Held:
    return {here.name: set(found), other.name: set(there)}


def names(directory: Path, topic: str = "t") -> list[str]:
    return sorted(path.name.partition(".")[2].rpartition("-")[2] for path in directory.glob(f"{topic}-0*"))


@pytest.mark.parametrize("version", [1, 2])
async def test_a_partition_moves_with_all_its_records(dirs: tuple[Path, Path], version: int) -> None:
    async with serving(*dirs, configs={}) as client:
        here, there = await place(client, dirs)
        for number in range(20):
            await client.produce("t", batch(b"%d" % number * 40_000))
        before = await consume(client, "t", 0, committed=False)
        assert await alter(client, (there, "t", 0), version=version) == [0]
        await until(client, at(here, other=there, there=(("t-0", False),)))
        assert await consume(client, "t", 0, committed=False) == before
        assert (await client.produce("t", batch(b"after"))).base_offset == 20
        assert (names(here), names(there)) == (["delete"], [""])
    async with serving(*dirs, configs={}) as client:
        assert (await consume(client, "t", 0, committed=False))["end"] == 21
        assert await held(client) == at(here, other=there, there=(("t-0", False),))
        assert await alter(client, (here, "t", 0)) == [0]
        await until(client, at(here, ("t-0", False), other=there))
        assert (await consume(client, "t", 0, committed=False))["end"] == 21


async def test_records_appended_during_a_move_are_moved(
    dirs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    pause = Pause(monkeypatch)
    async with serving(*dirs, configs={}) as client:
        here, there = await place(client, dirs)
        await client.produce("t", batch(b"before"))
        await alter(client, (there, "t", 0))
        await pause.reached.wait()
        assert await held(client) == at(here, ("t-0", False), other=there, there=(("t-0", True),))
        for _ in range(3):
            await client.produce("t", batch(b"meanwhile" * 1000))
        response = await client.call(DescribeLogDirsRequest(topics=None), 4)
        copies = [
            part for one in response.results for topic in one.topics for part in topic.partitions if part.is_future_key
        ]
        assert [(part.partition_size, part.offset_lag) for part in copies] == [(len(batch(b"before")), 3)]
        pause.go.set()
        await until(client, at(here, other=there, there=(("t-0", False),)))
        assert (await consume(client, "t", 0, committed=False))["count"] == 4


async def test_records_deleted_during_a_move_stay_deleted(
    dirs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    pause = Pause(monkeypatch)
    async with serving(*dirs, configs={}) as client:
        here, there = await place(client, dirs)
        for _ in range(3):
            await client.produce("t", batch(b"a", b"b"))
        await delete_records(client, 1)  # The offset is inside a batch.
        await alter(client, (there, "t", 0))
        await pause.reached.wait()
        await delete_records(client, 3)
        pause.go.set()
        await until(client, at(here, other=there, there=(("t-0", False),)))
        assert (await consume(client, "t", 0, committed=False))["start"] == 3
    async with serving(*dirs, configs={}) as client:
        content = await consume(client, "t", 0, committed=False)
        assert (content["start"], content["end"]) == (3, 6)


async def delete_records(client: Client, offset: int) -> None:
    await client.call(DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, offset)])], 1000), 2)


async def test_moving_back_to_the_current_directory_cancels_a_move(
    dirs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    pause = Pause(monkeypatch)
    async with serving(*dirs, configs={}) as client:
        here, there = await place(client, dirs)
        await client.produce("t", batch(b"x"))
        assert await alter(client, (there, "t", 0)) == [0]
        await pause.reached.wait()
        assert await alter(client, (there, "t", 0)) == [0]  # The partition is already being moved there.
        assert await held(client) == at(here, ("t-0", False), other=there, there=(("t-0", True),))
        assert await alter(client, (here, "t", 0)) == [0]
        assert await held(client) == at(here, ("t-0", False), other=there)
        assert names(there) == ["delete"]
        pause.go.set()
        await client.produce("t", batch(b"x"))
        assert await held(client) == at(here, ("t-0", False), other=there)


async def test_a_topic_may_be_deleted_while_it_moves(dirs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    pause = Pause(monkeypatch)
    async with serving(*dirs, configs={}) as client:
        here, there = await place(client, dirs)
        await client.produce("t", batch(b"x"))
        await alter(client, (there, "t", 0))
        await pause.reached.wait()
        await client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000), 6)
        assert await held(client) == at(here, other=there)
        pause.go.set()
        assert (names(here), names(there)) == (["delete"], ["delete"])
        assert (await place(client, dirs))[0] in dirs
        assert (await client.produce("t", batch(b"new"))).base_offset == 0


async def test_a_refused_move_does_not_affect_other_partitions(dirs: tuple[Path, Path]) -> None:
    async with serving(*dirs, configs={}) as client:
        here, there = await place(client, dirs)
        for length in (209, 210, 213):
            await client.create("x" * length, 1)
        asked: list[tuple[Path | str, str, int]] = [
            ("/nowhere", "t", 0),
            ("", "nobody", 0),
            (there, "t", 1),
            (there, "t", -1),
            (there, "", 0),
            (there, "n", 0),
            (there, "x" * 213, 0),
            (there, "x" * 214, 0),
            ("one", "x" * 209, 0),
            (f"{here}/", "x" * 210, 0),
        ]
        no_dir, unknown, name = (
            ErrorCode.LOG_DIR_NOT_FOUND,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        )
        codes = [(await alter(client, one))[0] for one in asked]
        assert codes == [no_dir, no_dir, unknown, unknown, unknown, unknown, 0, name, no_dir, no_dir]
        assert await alter(client) == []
        assert await alter(client, (there, "t", 0), (here, "t", 0)) == [0]  # The last directory in the request counts.
        assert (await held(client))[here.name] >= {("t-0", False)}


async def test_no_partition_moves_to_a_failed_directory(
    dirs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    directories: list[LogDirectory] = []
    begin = LogDirectory.__init__

    def noted(directory: LogDirectory, *args: Any) -> None:
        directories.append(directory)
        begin(directory, *args)

    monkeypatch.setattr(LogDirectory, "__init__", noted)
    async with serving(*dirs, configs={}) as client:
        here, there = await place(client, dirs)
        next(one for one in directories if one.path == str(there)).failed = OSError(5, "broken")
        assert await alter(client, (there, "t", 0)) == [ErrorCode.KAFKA_STORAGE_ERROR]
        assert await alter(client, (here, "t", 0)) == [0]


async def test_nothing_moves_into_a_cordoned_directory(dirs: tuple[Path, Path]) -> None:
    """Kafka looks at the directory before it looks for the partition, but after the length of the topic's name."""
    cordoned, other = dirs
    configs = {"log.dirs": ",".join(map(str, dirs)), "cordoned.log.dirs": str(cordoned)}
    async with serving(*dirs, configs=configs) as client:
        assert await place(client, dirs) == (other, cordoned)
        refused = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await alter(client, (cordoned, "t", 0), (cordoned, "unknown", 0)) == [refused, refused]
        assert await alter(client, (other, "t", 0)) == [0]
        assert await alter(client, (cordoned, "x" * 240, 0)) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
        assert await held(client) == at(other, ("t-0", False), other=cordoned)
    async with serving(*dirs, configs={}) as client:
        assert await alter(client, (cordoned, "t", 0)) == [0]
        await until(client, at(other, other=cordoned, there=(("t-0", False),)))


async def test_a_move_continues_after_a_restart(dirs: tuple[Path, Path]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        pause = Pause(patch)
        async with serving(*dirs, configs={}) as client:
            here, there = await place(client, dirs)
            await client.produce("t", batch(b"before"))
            await alter(client, (there, "t", 0))
            await pause.reached.wait()
            await client.produce("t", batch(b"after"))
    assert (names(here), names(there)) == ([""], ["future"])
    async with serving(*dirs, configs={}) as client:
        await until(client, at(here, other=there, there=(("t-0", False),)))
        assert (await consume(client, "t", 0, committed=False))["count"] == 2


async def test_a_copy_of_an_unknown_partition_is_renamed_as_stray(dirs: tuple[Path, Path]) -> None:
    async with serving(*dirs, configs={}) as client:
        here, there = await place(client, dirs)
    for name in ("gone-0", "t-7"):
        (there / f"{name}.{'0' * 32}-future").mkdir()
    async with serving(*dirs, configs={}) as client:
        assert await held(client) == at(here, ("t-0", False), other=there)
        assert (names(there, "gone"), sorted(one.name.rpartition("-")[2] for one in there.glob("t-7*"))) == (
            ["stray"],
            ["stray"],
        )


@pytest.mark.parametrize("damage", ["metadata", "log"])
async def test_a_damaged_copy_is_replaced_by_an_empty_one(dirs: tuple[Path, Path], damage: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        pause = Pause(patch)
        async with serving(*dirs, configs={}) as client:
            here, there = await place(client, dirs)
            await client.produce("t", batch(b"whole"))
            await alter(client, (there, "t", 0))
            await pause.reached.wait()
    (copy,) = there.glob("t-0*-future")
    if damage == "metadata":
        (copy / "partition.metadata").unlink()
    else:
        (copy / f"{0:020d}.log").write_bytes(b"x" * 100)
    async with serving(*dirs, configs={}) as client:
        await until(client, at(here, other=there, there=(("t-0", False),)))
        assert (await consume(client, "t", 0, committed=False))["count"] == 1


async def test_a_copy_uses_no_descriptor_that_is_reserved_for_clients(
    dirs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A limit of 128 descriptors with two directories leaves 56 for partitions."""
    monkeypatch.setattr(system, "open_files_max", lambda: 128)
    async with serving(*dirs, configs={}) as client:
        here, there = await place(client, dirs)
        await client.create("full", 55)
        assert await alter(client, (there, "t", 0)) == [ErrorCode.KAFKA_STORAGE_ERROR]
        assert "t-0: not moving to another log directory, as no file descriptor is free" in caplog.text
        assert await alter(client, (here, "t", 0)) == [0], "the partition is in the new directory"
        await client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="full")], timeout_ms=1000), 6)
        assert await alter(client, (there, "t", 0)) == [0]
        await until(client, at(here, other=there, there=(("t-0", False),)))
