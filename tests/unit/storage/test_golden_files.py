"""Tests that rebuild the indexes, snapshots and checkpoints in Kafka's log directories byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pykbroker.core.log.producers import Producers
from pykbroker.storage.files import checkpoints
from pykbroker.storage.files.meta_properties import MetaProperties
from pykbroker.storage.files.partition_directory import decode_metadata, encode_metadata
from pykbroker.storage.recovery import producer_snapshot
from pykbroker.storage.recovery.producer_snapshot import ENTRY, HEAD
from pykbroker.storage.recovery.replay import remember
from pykbroker.storage.segments import txn_index
from pykbroker.storage.segments.config import LogConfig
from pykbroker.storage.segments.leftovers import offsets_of
from pykbroker.storage.segments.segment import ActiveSegment
from pykbroker.world.system_disk import SystemDisk
from pykbroker.world.system_off_loop import SystemOffLoop
from tests.unit.storage.golden import unpack
from wire.records.batch import Batch, batches
from wire.records.crc import crc32c

RESTARTS = {"clean": "unclean", "snapshotted": "clean"}
"""The directories before the last start of the broker, which began new indexes."""


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("golden")
    for kind in ("clean", "unclean", "snapshotted"):
        unpack(kind, path)
    return path


def partitions(root: Path) -> Iterator[Path]:
    for path in sorted(root.iterdir()):
        if path.is_dir():
            yield path


def logs(partition: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the files of each segment, and whether it is the active one."""
    bases = offsets_of([path.name for path in partition.iterdir()], ".log")
    for base in bases:
        yield partition / f"{base:020d}.log", base == bases[-1]


def stored(path: Path) -> list[Batch]:
    return list(batches(path.read_bytes(), strict=True))


@pytest.mark.parametrize("kind", ["clean", "unclean", "snapshotted"])
def test_rebuilt_indexes_equal_kafkas(golden: Path, kind: str) -> None:
    """The index files of an active segment that was not closed are preallocated, so they end with zeros."""
    disk, seen = SystemDisk(str(golden), SystemOffLoop()), 0
    for partition in partitions(golden / kind):
        config = LogConfig(index_interval_bytes=4096 if partition.name == "__cluster_metadata-0" else 1024)
        for log, active in logs(partition):
            name = str(log.relative_to(golden))
            segment = ActiveSegment(int(log.stem), disk.open(name), config)
            before = golden / RESTARTS.get(kind, kind) / partition.name / log.name
            restart = before.stat().st_size if kind in RESTARTS and before.exists() else -1
            for batch in stored(log):
                if segment.size == restart:
                    segment.rest()
                segment.note_batch(batch)
            killed = active and kind == "unclean"
            if not killed:
                segment.rest()
            for suffix, derived in ((".index", segment.index.encode()), (".timeindex", segment.times.encode())):
                file = log.with_suffix(suffix).read_bytes()
                assert file[: len(derived)] == derived, f"{name}{suffix}"
                assert file[len(derived) :].strip(b"\0") == b"", f"{name}{suffix}"
                preallocated = killed or partition.name.endswith("-stray")
                assert preallocated or len(file) == len(derived), f"{name}{suffix}"
            seen += 1
    assert seen >= {"clean": 36, "unclean": 37, "snapshotted": 1}[kind]


@pytest.mark.parametrize("kind", ["clean", "unclean", "snapshotted"])
def test_rebuilt_producer_snapshots_and_transaction_indexes_equal_kafkas(golden: Path, kind: str) -> None:
    snapshots, aborted = set[Path](), 0
    for partition in partitions(golden / kind):
        producers = Producers()
        for log, _ in logs(partition):
            found = []
            snapshots |= same_snapshot(partition, int(log.stem), producers)
            for batch in stored(log):
                snapshots |= same_snapshot(partition, batch.base_offset, producers)
                if one := remember(producers, batch):
                    found.append(one)
            if log.stat().st_size:
                snapshots |= same_snapshot(partition, batch.last_offset + 1, producers)
            file = log.with_suffix(".txnindex")
            assert (file.read_bytes() if file.exists() else b"") == txn_index.encode(found), file
            aborted += len(found)
    assert snapshots == set((golden / kind).glob("*/*.snapshot"))
    assert aborted == {"clean": 5, "unclean": 4, "snapshotted": 0}[kind]


def same_snapshot(partition: Path, offset: int, producers: Producers) -> set[Path]:
    """Assert that the snapshot at this offset, if it exists, equals the producers."""
    path = partition / f"{offset:020d}.snapshot"
    if not path.exists():
        return set()
    file = path.read_bytes()
    assert as_kafka_writes(producer_snapshot.encode(producers.entries())) == file, path
    assert producer_snapshot.encode(producer_snapshot.decode(file).entries()) == file, path
    return {path}


def as_kafka_writes(snapshot: bytes) -> bytes:
    """Return the snapshot with only the last batch of each producer, as Kafka writes it."""
    starts = range(HEAD.size, len(snapshot), ENTRY.size)
    last = {snapshot[at : at + 8]: snapshot[at : at + ENTRY.size] for at in starts}
    content = len(last).to_bytes(4, "big") + b"".join(last.values())
    return snapshot[:2] + crc32c(content).to_bytes(4, "big") + content


@pytest.mark.parametrize("kind", ["clean", "unclean"])
def test_rewritten_checkpoints_equal_kafkas(golden: Path, kind: str) -> None:
    for name in (
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
        "cleaner-offset-checkpoint",
    ):
        file = (golden / kind / name).read_bytes()
        offsets = checkpoints.decode_offsets(file)
        assert sorted(checkpoints.encode_offsets(offsets).splitlines()) == sorted(file.splitlines())
    assert offsets == {("compacted", 0): 64}


@pytest.mark.parametrize("kind", ["clean", "unclean", "snapshotted"])
def test_rewritten_partition_files_equal_kafkas(golden: Path, kind: str) -> None:
    for partition in partitions(golden / kind):
        epochs = (partition / "leader-epoch-checkpoint").read_bytes()
        assert checkpoints.encode_epochs(checkpoints.decode_epochs(epochs)) == epochs
        metadata = (partition / "partition.metadata").read_bytes()
        topic_id = decode_metadata(metadata)
        assert topic_id is not None
        assert encode_metadata(topic_id) == metadata


def test_rewritten_meta_properties_equal_kafkas(golden: Path) -> None:
    file = (golden / "clean" / "meta.properties").read_bytes()
    found = MetaProperties.decode(file)
    assert (found.node_id, found.cluster_id) == (1, "MkU3OEVBNTcwNTJENDM2Qk")
    assert found.encode(1_795_266_158_000) == file
