"""Tests of any damage to any kind of file in a log directory, after a controlled shutdown and after a kill.

A file that can be rebuilt is rebuilt. Otherwise the partition is offline or the broker does not start, and the log or
the error names the file or its partition. No damaged record is served, and no record of a served partition is missing.
All other partitions are served completely.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from pykbroker.core.errors import StartError
from pykbroker.sim.broker_node import leaves
from pykbroker.world.system_disk import SystemDisk, SystemFile
from tests.unit.apis.conftest import Client, batch
from tests.unit.directories import offset_of, serving
from wire.error_codes import ErrorCode
from wire.records.batch import batches

PLACES = [("t", 0), ("t", 1), ("other", 0)]
BATCHES = 25
HARMED = "t", 0
CLEAN = ".kafka_cleanshutdown"

PARTITION_OR_WHOLE, WHOLE, REFUSED_OR_WHOLE = "partition", "whole", "refused"
"""The possible outcomes for a damaged partition or start. WHOLE means that the partition is served as before."""
KINDS = {
    "t-0/00000000000000000000.log": PARTITION_OR_WHOLE,
    "t-0/00000000000000000000.index": WHOLE,
    "t-0/00000000000000000000.timeindex": WHOLE,
    "t-0/LAST.log": PARTITION_OR_WHOLE,
    "t-0/LAST.index": WHOLE,
    "t-0/LAST.timeindex": WHOLE,
    "t-0/LAST.snapshot": WHOLE,
    "t-0/leader-epoch-checkpoint": WHOLE,
    "t-0/partition.metadata": PARTITION_OR_WHOLE,
    "recovery-point-offset-checkpoint": WHOLE,
    "replication-offset-checkpoint": WHOLE,
    "log-start-offset-checkpoint": WHOLE,
    "cleaner-offset-checkpoint": WHOLE,
    "meta.properties": REFUSED_OR_WHOLE,
    "bootstrap.checkpoint": REFUSED_OR_WHOLE,
    CLEAN: WHOLE,
    ".lock": REFUSED_OR_WHOLE,
    "__cluster_metadata-0/00000000000000000000.log": REFUSED_OR_WHOLE,
    "__cluster_metadata-0/00000000000000000000.index": WHOLE,
    "__cluster_metadata-0/partition.metadata": REFUSED_OR_WHOLE,
    "__cluster_metadata-0/quorum-state": REFUSED_OR_WHOLE,
    "__cluster_metadata-0/leader-epoch-checkpoint": WHOLE,
}


def missing(path: Path) -> None:
    path.unlink(missing_ok=True)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    content = path.read_bytes() if path.exists() else b""
    path.write_bytes(content[: len(content) * 2 // 3])


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes() if path.exists() else b"")
    if content:
        content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


def longer(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\x00\xffgarbage" * 9)


def swapped(path: Path) -> None:
    """Replace a file by the same kind of file of another partition, or by another kind of file."""
    others = [one for one in path.parent.parent.glob(f"t-1/*{path.suffix}") if path.suffix and one.name != path.name]
    others.append(path.parent.parent / "t-1" / path.name)
    others.append(path.parent.parent / "t-1" / "leader-epoch-checkpoint")
    others += [path.parent / "meta.properties", path.parent / "cleaner-offset-checkpoint"]
    path.write_bytes(next(one for one in others if one != path and one.exists()).read_bytes())


HARMS = (missing, empty, cut, flipped, longer, swapped)


@pytest.fixture(scope="module", params=["stopped", "killed"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an undamaged log directory.

    The directory of a killed broker has no clean-shutdown file, and its indexes end with zeros.
    """
    directory = tmp_path_factory.mktemp(request.param) / "data"
    trio.run(filled, directory)
    if request.param == "killed":
        (directory / CLEAN).unlink()
        (directory / ".lock").touch()
        for index in directory.glob("t-*/*.index"):
            longer_by_zeros(index)
    return directory


def longer_by_zeros(path: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(800))


async def filled(directory: Path) -> None:
    async with serving(directory, configs={}) as client:
        for topic, count in (("t", 2), ("other", 1)):
            await client.create(topic, count, internal_segment_bytes="1000", index_interval_bytes="200")
        for topic, index in PLACES:
            for number in range(BATCHES):
                value = f"{topic}-{index}-{number} ".encode() * 3
                assert (await client.produce(topic, batch(value), partition=index)).error_code == 0


async def served(client: Client, topic: str, index: int) -> bytes | None:
    """Return everything that a consumer reads, or None if the partition is offline."""
    end = await offset_of(client, topic, index, -1, committed=False)
    found, offset = b"", 0
    while 0 <= offset < end:
        answer = await client.fetch(topic, offset, partition=index)
        if answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
            return None
        assert answer.error_code == 0
        assert answer.records
        found += bytes(answer.records)
        offset = list(batches(answer.records))[-1].last_offset + 1
    return None if end < 0 else found


async def everything(directory: Path) -> dict[tuple[str, int], bytes | None]:
    async with serving(directory, configs={}) as client:
        return {(topic, index): await served(client, topic, index) for topic, index in PLACES}


def at(directory: Path, kind: str) -> Path:
    """Return the path of a file of this kind, in the newest segment if each segment has one."""
    if "LAST" not in kind:
        return directory / kind
    folder, name = kind.split("/")
    return sorted((directory / folder).glob(name.replace("LAST", "*")))[-1]


@pytest.fixture
def directory(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "data"))


async def judge(
    directory: Path,
    kind: str,
    expected: dict[tuple[str, int], bytes | None],
    caplog: pytest.LogCaptureFixture,
    *,
    in_the_way: bool = False,
) -> bool:
    """Start a broker on the damaged directory, check its partitions, and return whether it started.

    An error must name the file, unless a directory is `in_the_way`.
    """
    named = re.escape(Path(kind).parts[0].removesuffix("-0")) + "|" + re.escape(at(directory, kind).name)
    try:
        found = await everything(directory)
    except BaseExceptionGroup as group:
        refusals, others = group.split(StartError)
        assert others is None
        assert in_the_way or KINDS[kind] == REFUSED_OR_WHOLE, refusals
        assert re.search(named, str(list(leaves(group))))
        return False
    for place, content in found.items():
        if content != expected[place]:
            assert place == HARMED
            assert in_the_way or KINDS[kind] == PARTITION_OR_WHOLE
            assert content is None
            assert re.search(named, caplog.text)
    return True


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("harm", HARMS)
async def test_a_damaged_file_is_rebuilt_or_reported(
    directory: Path,
    whole: Path,
    tmp_path: Path,
    kind: str,
    harm: Callable[[Path], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected = await everything(Path(shutil.copytree(whole, tmp_path / "unharmed")))
    assert None not in expected.values()
    harm(at(directory, kind))
    await judge(directory, kind, expected, caplog)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_directory_in_place_of_a_file_is_reported_and_kept(
    directory: Path, whole: Path, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Such a directory may be a mount point or a mistake. The broker does not remove it, since it may contain files."""
    expected = await everything(Path(shutil.copytree(whole, tmp_path / "unharmed")))
    path = at(directory, kind)
    aside = path.read_bytes() if path.exists() else None
    missing(path)
    path.mkdir()
    (path / "precious").touch()
    await judge(directory, kind, expected, caplog, in_the_way=True)
    assert (path / "precious").exists()
    shutil.rmtree(path)
    if aside is not None:
        path.write_bytes(aside)
    assert await everything(directory) == expected, "no record is lost once the directory is removed"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_file_that_may_not_be_opened_is_reported(
    directory: Path,
    whole: Path,
    tmp_path: Path,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected = await everything(Path(shutil.copytree(whole, tmp_path / "unharmed")))
    path = str(at(directory, kind).relative_to(directory))
    opened, lock = SystemDisk.open, SystemDisk.lock

    def refuse(disk: SystemDisk, asked: str, *, create: bool = False) -> SystemFile:
        if asked == path:
            raise PermissionError(13, "Permission denied", asked)
        return opened(disk, asked, create=create)

    def refuse_lock(disk: SystemDisk, asked: str) -> None:
        if asked == path:
            raise PermissionError(13, "Permission denied", asked)
        lock(disk, asked)

    with monkeypatch.context() as patch:
        patch.setattr(SystemDisk, "open", refuse)
        patch.setattr(SystemDisk, "lock", refuse_lock)
        await judge(directory, kind, expected, caplog)
    assert await everything(directory) == expected
