"""The job `archive` without Spark and brokers: its sink, its checkpoint and a reader of the bare directory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import xor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from pyspark.errors import PySparkException

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.cluster import ClusterFacts
from pykbroker.pipeline.jobs import parquet, small_files
from pykbroker.pipeline.jobs.archived_files import ArchivedFile, OffsetRange, damages
from pykbroker.pipeline.jobs.commits import CHECKPOINT, ArchiveCommits, require_same_ends
from pykbroker.pipeline.jobs.parquet import ParquetFiles
from pykbroker.pipeline.jobs.skipped import SkippedRange
from pykbroker.pipeline.jobs.written_files import PLACES
from pykbroker.pipeline.spark_offsets import Ends
from pykbroker.pipeline.state import note_run, planned_run
from pykbroker.pipeline.storage import LocalStorage

TOPIC = "orders"
DAYS = ("topic=orders/date=2026-11-24", "topic=orders/date=2026-11-25")
FACTS = ClusterFacts("cluster", {TOPIC: "id"}, {TOPIC: 1})
BATCHES, BATCH_RECORDS = 2, 4
EVERYTHING = list(range(BATCHES * BATCH_RECORDS))


class Frame:
    """Records in place of a DataFrame: their offsets by the day's directory. A file has offsets as JSON."""

    def __init__(self, storage: LocalStorage, days: Mapping[str, list[int]]) -> None:
        self._storage, self._days = storage, days
        self.sparkSession, self.write = Session(storage), self

    def partitionBy(self, *_: str) -> Frame:
        return self

    coalesce = sortWithinPartitions = partitionBy

    def parquet(self, path: str) -> None:
        """Write the files, and those of Spark."""
        name = Path(path).relative_to(self._storage.directory)
        for day, offsets in self._days.items():
            content = json.dumps(sorted(offsets)).encode()
            self._storage.write(f"{name / day}/part-00000-{uuid4().hex[:8]}.parquet", content)
        LocalStorage.write(self._storage, f"{name}/_SUCCESS", b"")


class Session:
    """A session in place of Spark's, which reads the files of frames."""

    def __init__(self, storage: LocalStorage) -> None:
        self._storage = storage
        self.conf = SimpleNamespace(set=lambda *_: None, get=lambda *_: None)
        self.read = self

    def newSession(self) -> Session:
        return self

    def schema(self, _: str) -> Session:
        return self

    def parquet(self, *paths: str) -> Frame:
        return Frame(self._storage, {"": [each for path in paths for each in offsets_in(Path(path))]})


def offsets_in(path: Path) -> list[int]:
    """Return the offsets of a file. Raise an error as Spark's for a damaged one."""
    try:
        found: list[int] = json.loads(path.read_bytes())
    except ValueError:
        text = f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file://{path}. SQLSTATE: KD001"
        raise PySparkException(text) from None
    return found


def written_files(_: Any, paths: Sequence[str], sizes: Mapping[str, int], __: str) -> dict[str, ArchivedFile]:
    """Return the content of files, as Spark reads it."""
    found = {}
    for path in (file for each in map(Path, paths) for file in ([each] if each.is_file() else each.rglob("*.parquet"))):
        offsets = offsets_in(path)
        proof = checksum(offsets)
        name = "/".join(path.parts[-PLACES:])
        found[name] = ArchivedFile(sizes[name], [OffsetRange(0, min(offsets), max(offsets), len(offsets), proof)])
    return found


def checksum(offsets: Sequence[int]) -> int:
    """Return the checksum of records, of which each is a product of its offset."""
    return reduce(xor, (each * 0x9E3779B1 for each in offsets))


def in_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merge from two small files on and fold from two commits on, without Spark and without fsync."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr(small_files, "FILES_MIN", 2)
    monkeypatch.setattr(ArchiveCommits.fold, "__defaults__", (1,))
    for module in (parquet, small_files):
        monkeypatch.setattr(module, "written_files", written_files)


def ends_of(batch: int) -> Ends:
    return {TOPIC: {"0": (batch + 1) * BATCH_RECORDS}}


def archive(
    directory: Path, storage: type[LocalStorage] = LocalStorage, say: Callable[[str], None] = lambda _: None
) -> None:
    """Archive all batches from where the checkpoint is, as the job does with Spark, which keeps offsets and commits."""
    target, checkpoint = storage(directory), storage(directory / CHECKPOINT)
    sink = ParquetFiles(Session(target), target, 1 << 20, say)  # type: ignore[arg-type]
    sink.require_archive()
    with checkpoint.lock("lock"), target.lock("_pykbroker/lock"):
        manifest = planned_run(checkpoint, "archive", FACTS, {"target": target.directory})
        planned, done = (len(checkpoint.files(name)) for name in ("offsets", "commits"))
        sink.require_run(manifest.run_id, is_new=not planned)
        note_run(checkpoint, manifest)
        sink.open(manifest.run_id, is_new=not planned)
        if done:
            sink.require_batch(done - 1, ends_of)
        for batch in range(done, BATCHES):
            if batch >= planned:
                checkpoint.write(f"offsets/{batch}", b"")
            if (written := sink.committed(batch, ends_of)) is None:
                sink.write(records(target, batch), batch, ends_of(batch), no_skips)
            else:
                require_same_ends(batch, written, ends_of(batch), target.directory)
            checkpoint.write(f"commits/{batch}", b"")
        sink.tidy()
        sink.close()


def records(target: LocalStorage, batch: int) -> Any:
    """Return the records of a batch, which has two days."""
    offsets = range(batch * BATCH_RECORDS, (batch + 1) * BATCH_RECORDS)
    return Frame(target, {day: list(offsets[index::2]) for index, day in enumerate(DAYS)})


def no_skips(_: Mapping[TopicPartition, int]) -> list[SkippedRange]:
    return []


def seen(directory: Path) -> list[int]:
    """Return the offsets that a reader of the bare directory sees, sorted. It skips names with _ or a dot in front."""
    found: list[int] = []
    for path in directory.rglob("*.parquet"):
        if not any(part.startswith(("_", ".")) for part in path.relative_to(directory).parts):
            found += json.loads(path.read_bytes())
    return sorted(found)


def require_part(directory: Path) -> None:
    """Require that a reader sees no record twice."""
    found = seen(directory)
    assert len(found) == len(set(found)), found


def require_whole(directory: Path) -> None:
    """Require that a reader sees each record once, and that the commits and the names of files agree with that."""
    assert seen(directory) == EVERYTHING
    storage = LocalStorage(directory)
    total, files, _, is_pending, _ = ArchiveCommits(storage).read()
    [found] = total.ranges
    assert (total.batch, found.first, found.last, found.count, total.ends) == (
        *(BATCHES - 1, EVERYTHING[0], EVERYTHING[-1], len(EVERYTHING)),
        ends_of(BATCHES - 1),
    )
    assert found.checksum == checksum(EVERYTHING)
    assert not is_pending
    there = [each for each in storage.files() if each.path.endswith(".parquet") and not each.path.startswith("_")]
    assert sorted(files) == [each.path for each in there]
    assert not damages(files, there)


def faulty_runs(run: Callable[[Path, int], bool], tmp_path: Path, steps_max: int) -> Iterator[Path]:
    """Run something with a fault at each of its steps, in a directory of its own. Yield the directories."""
    for step in range(1, steps_max):
        directory = tmp_path / str(step) / "lake"
        has_fault = run(directory, step)
        yield directory
        if not has_fault:
            return
    raise AssertionError("the run has no end")


def write_state(directory: Path, content: Mapping[str, bytes]) -> None:
    """Write what Spark writes into the directory of a new state."""
    directory.mkdir(parents=True)
    for name, each in {**content, "_SUCCESS": b"", ".part.crc": b"x"}.items():
        (directory / name).write_bytes(each)
