"""The files that commits name have all records: after any crash of a merge and of a fold, and while a run works."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial, reduce
from operator import xor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.errors import PipelineError, StateConflict
from pykbroker.pipeline.jobs import archived, small_files
from pykbroker.pipeline.jobs.archived import (
    ArchiveClaims,
    ArchivedRecords,
    FoundFiles,
    claims_of,
    look_up,
    require_settled,
    settled_files,
)
from pykbroker.pipeline.jobs.archived_files import ArchivedFile, FileChange, OffsetRange, damages, summed_contents
from pykbroker.pipeline.jobs.commits import (
    COMMITS,
    DONE,
    READ_ATTEMPTS,
    SUMMARY,
    ArchiveCommit,
    ArchiveCommits,
    ArchivedRange,
    ranges_of,
    summed,
    summed_ranges,
    unproven_note,
)
from pykbroker.pipeline.jobs.compact import CompactSettings
from pykbroker.pipeline.jobs.file_lists import CHANGES, LISTS
from pykbroker.pipeline.jobs.parquet import ParquetFiles
from pykbroker.pipeline.jobs.small_files import MERGED, crowded_days, replace_day, unlike_partitions
from pykbroker.pipeline.storage import LocalStorage, StoredFile
from tests.unit.pipeline.jobs.crashes import CRASHES, OPERATIONS_MAX
from tests.unit.pipeline.jobs.lake import Session

DAY = "topic=orders/date=2026-11-24"
FILES, FILE_RECORDS, BATCHES = 2, 5, 3
ORDERS = TopicPartition("orders", 0)


@pytest.fixture(autouse=True)
def in_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out fsync, which takes most of the time. Two small files are merged already, and nothing is waited for."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(small_files, "FILES_MIN", 2)
    monkeypatch.setattr(archived, "SETTLING_S", 0)
    monkeypatch.setattr(archived, "STILL_LOOKS", 2)


def content(path: Path) -> ArchivedFile:
    """Return the content of a file, whose records have the checksum of their offset."""
    offsets = records_in(path)
    part = OffsetRange(0, min(offsets), max(offsets), len(offsets), checksum(offsets))
    return ArchivedFile(path.stat().st_size, [part])


def records_in(path: Path) -> list[int]:
    """Return the offsets of a file, which stands for one of Parquet."""
    return msgspec.json.decode(path.read_bytes(), type=list[int])


def checksum(offsets: Sequence[int]) -> int:
    return reduce(xor, (hash((each, "record")) for each in offsets))


def write_file(path: Path, offsets: Sequence[int]) -> ArchivedFile:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(list(offsets)))
    return content(path)


def write_batch(commits: ArchiveCommits, directory: Path, batch: int) -> None:
    """Stage the files of a batch, as Spark does, and commit them."""
    size, contents = FILES * FILE_RECORDS, {}
    for index in range(FILES):
        first = batch * size + index * FILE_RECORDS
        place = f"{commits.staging}/batch-{batch}"
        file = write_file(directory / place / DAY / f"part-{index}.parquet", range(first, first + FILE_RECORDS))
        contents[f"{DAY}/batch-{batch}-{index}.parquet"] = file
    ends = {"orders": {"0": (batch + 1) * size}}
    commits.commit(ArchiveCommit(batch, {}, ranges_of(contents), ends, [], place, contents))


def merge(commits: ArchiveCommits, directory: Path) -> None:
    """Merge the small files of the day, as the job does with Spark."""
    archive = LocalStorage(directory)
    files = commits.read().files
    for day, small in crowded_days((StoredFile(path, each.size) for path, each in files.items()), 10_000).items():
        offsets = records_of(directory, [each.path for each in small])
        name = f"{day}/part-{offsets[0]}-{len(offsets)}.parquet"
        added = {name: write_file(directory / commits.staging / MERGED / name, offsets)}
        change = FileChange([each.path for each in small], added)
        assert unlike_partitions([files[each.path] for each in small], added.values()) == []
        exchange = partial(replace_day, archive, commits.staging, day, small)
        assert commits.replace_files(change, exchange)


def run(directory: Path, batches: int = BATCHES) -> None:
    """Archive all batches, merge and fold, as a job does that may have been killed before."""
    commits = ArchiveCommits(LocalStorage(directory))
    commits.open("run", is_new=not (directory / "checkpoint").exists())
    for batch in range(batches):
        if commits.committed(batch) is None:
            write_batch(commits, directory, batch)
        if batch != 1:
            merge(commits, directory)
            commits.fold(1)
    commits.close()


def records_of(directory: Path, paths: Sequence[str]) -> list[int]:
    return sorted(offset for path in paths for offset in records_in(directory / path))


def require_proven(directory: Path) -> int:
    """Require that the claimed files have the records that the commits claim, and return their number."""
    claims, found = settled_files(LocalStorage(directory), claims_of(LocalStorage(directory)))
    assert found.damages == [], directory
    offsets = records_of(directory, found.paths)
    if not claims.is_pending and offsets:
        assert offsets == list(range(len(offsets))), directory
        assert claims.ranges == {
            ORDERS: ArchivedRange(0, 0, offsets[-1], len(offsets), checksum(offsets), topic="orders")
        }, directory
        assert summed_contents((claims.files or {}).values()) == [
            OffsetRange(0, 0, offsets[-1], len(offsets), checksum(offsets))
        ], directory
    return len(offsets)


def test_after_a_crash_before_any_operation_the_claimed_files_are_the_records(tmp_path: Path) -> None:
    for step in range(1, OPERATIONS_MAX):
        directory = tmp_path / f"archive-{step}"
        is_crashed = CRASHES.run(partial(run, directory), step)
        if (directory / "_pykbroker/archive.json").exists():
            require_proven(directory)
        run(directory)
        assert require_proven(directory) == BATCHES * FILES * FILE_RECORDS
        own = [each.path for each in LocalStorage(directory).files("_pykbroker")]
        lists = [each for each in own if each.startswith(LISTS)]
        assert not [each for each in own if each.startswith(CHANGES) or "tmp" in each.removeprefix(COMMITS)], directory
        assert len(lists) <= 2, directory  # one may be left until the next fold
        if not is_crashed:
            assert step > 120
            return
    raise AssertionError("the run has no end")


# ---- readers beside a run


class BusyStorage(LocalStorage):
    """A storage beside which a run does something, after a number of operations of its reader."""

    def __init__(self, directory: Path, action: Callable[[], None], operations: int) -> None:
        super().__init__(directory)
        self._action, self.left = action, operations

    def _acted(self, result: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            self._action()
        return result

    def exists(self, name: str = "") -> bool:
        return bool(self._acted(super().exists(name)))

    def read(self, name: str) -> bytes:
        return bytes(self._acted(super().read(name)))

    def files(self, name: str = "") -> list[StoredFile]:
        found: list[StoredFile] = self._acted(super().files(name))
        return found


Reader = Callable[[LocalStorage], tuple[ArchiveClaims, FoundFiles]]


def claims_first(archive: LocalStorage) -> tuple[ArchiveClaims, FoundFiles]:
    return settled_files(archive, claims_of(archive))


def claims_after_files(archive: LocalStorage) -> tuple[ArchiveClaims, FoundFiles]:
    """Plant a bug: list the files before the claims are read."""
    listed = archive.files("topic=orders")
    claims = claims_of(archive)
    paths = [each.path for each in listed if each.path in (claims.files or {})]
    return claims, FoundFiles(paths, damages(claims.files or {}, listed))


def go_on(directory: Path) -> None:
    """Write a batch, merge all files and fold the commits, beside a reader."""
    commits = ArchiveCommits(LocalStorage(directory))
    write_batch(commits, directory, BATCHES)
    merge(commits, directory)
    commits.fold(0)


def invented_losses(read: Reader, tmp_path: Path) -> list[str]:
    """Advance a run after each operation of a reader. Return the losses that the reader finds in a whole archive."""
    found: list[str] = []
    for step in range(1, OPERATIONS_MAX):
        directory = tmp_path / f"busy-{step}"
        run(directory)
        storage = BusyStorage(directory, partial(go_on, directory), step)
        claims, files = read(storage)
        if storage.left > 0:
            return found
        found += files.damages
        if not files.damages and (directory / files.paths[0]).exists():
            assert len(records_of(directory, files.paths)) == claims.ranges[ORDERS].count
    raise AssertionError("the reader has no end")


def test_a_running_archive_never_makes_a_reader_invent_losses(tmp_path: Path) -> None:
    assert invented_losses(claims_first, tmp_path) == []


def test_claims_that_are_read_after_the_files_are_found_as_a_planted_bug(tmp_path: Path) -> None:
    assert any("is missing, which has" in each for each in invented_losses(claims_after_files, tmp_path))


class Reading:
    """The way of jobs to an archive, with the paths of files in place of records. `in_read` runs before Spark reads."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory, self.in_read, self.said = directory, list[Callable[[], object]](), list[str]()
        monkeypatch.setattr(archived, "storage_of", lambda _, place: LocalStorage(place))
        monkeypatch.setattr(archived, "_read_files", self._read_files)
        monkeypatch.setattr(archived, "with_times", lambda records: records)

    def _read_files(self, _: Any, archive: LocalStorage, paths: Sequence[str]) -> Sequence[str]:
        if self.in_read:
            self.in_read.pop(0)()
            archive.size(paths[0])  # as Spark lists the files before it reads them
        return paths

    def with_archive(self, use: Callable[[ArchivedRecords], Any]) -> Any:
        spark: Any = None
        return archived.with_archive(spark, CompactSettings(str(self.directory), ""), "compact", use, self.said.append)


@pytest.fixture
def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reading:
    return Reading(tmp_path, monkeypatch)


def number_of(directory: Path, found: ArchivedRecords) -> int:
    require_settled(found, "lake")
    return len(records_of(directory, found.records))  # type: ignore[arg-type]


@pytest.mark.parametrize("is_listed", [False, True])
def test_a_reader_of_a_file_that_a_merge_has_replaced_begins_again(
    tmp_path: Path, reading: Reading, is_listed: bool
) -> None:
    """The merge comes before Spark lists the files, or before it reads them."""
    run(tmp_path)
    merges = [partial(go_on, tmp_path)]
    uses = []

    def use(found: ArchivedRecords) -> int:
        uses.append(found)
        if is_listed and merges:
            merges.pop()()
        return number_of(tmp_path, found)

    reading.in_read = [] if is_listed else list(merges)
    assert reading.with_archive(use) == (BATCHES + 1) * FILES * FILE_RECORDS
    assert len(uses) == 1 + is_listed
    assert reading.said == [f"compact: files of {tmp_path} were replaced meanwhile: it is read again"]
    [path] = (tmp_path / DAY).glob("part-*.parquet")
    path.unlink()
    with pytest.raises(PipelineError, match=rf"is damaged: {DAY}/part-0-40\.parquet is missing, which has 40 records"):
        reading.with_archive(use)


def test_a_reader_of_unnamed_files_that_a_merge_has_replaced_begins_again(tmp_path: Path, reading: Reading) -> None:
    """Batches of an earlier version do not name their files, and a merge names what it has made of them."""
    storage, commits = LocalStorage(tmp_path), ArchiveCommits(LocalStorage(tmp_path))
    commits.open("run", is_new=True)
    old = b'{"batch":0,"files":{"a":"b"},"ranges":[{"topic":"orders","partition":0,"first":0,"last":9,"count":10}]}'
    storage.write(f"{COMMITS}/0000000000{DONE}", old)
    for index in range(2):
        write_file(tmp_path / DAY / f"batch-0-{index}.parquet", range(index * 5, index * 5 + 5))

    def merged() -> None:
        files = storage.files(DAY)
        name = f"{DAY}/part-0-10.parquet"
        change = FileChange(
            [each.path for each in files], {name: write_file(tmp_path / commits.staging / MERGED / name, range(10))}
        )
        assert commits.replace_files(change, partial(replace_day, storage, commits.staging, DAY, files))

    reading.in_read = [merged]
    assert reading.with_archive(partial(number_of, tmp_path)) == 10


def test_the_error_of_a_reader_is_not_hidden(tmp_path: Path, reading: Reading) -> None:
    """The question whether files were replaced may fail, too, as when the JVM has ended."""
    run(tmp_path)
    uses = []

    def use(_: ArchivedRecords) -> None:
        uses.append(1)
        for path in (tmp_path / DAY).iterdir():
            path.unlink()
        (tmp_path / COMMITS / f"{9:010d}{DONE}").write_bytes(b"{")
        raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        reading.with_archive(use)
    assert len(uses) == 1


def test_a_reader_that_never_has_the_files_gives_up(tmp_path: Path, reading: Reading) -> None:
    run(tmp_path)
    uses = []

    def use(found: ArchivedRecords) -> int:
        uses.append(1)
        path = Path(tmp_path, found.records[0])  # type: ignore[arg-type]
        name = f"{DAY}/part-{len(uses)}.parquet"
        commits = ArchiveCommits(LocalStorage(tmp_path))
        content = (found.claims.files or {})[found.records[0]]  # type: ignore[index]
        change = FileChange([found.records[0]], {name: content})  # type: ignore[list-item]
        assert commits.replace_files(change, lambda: bool(path.rename(tmp_path / name)))
        commits.fold()
        return number_of(tmp_path, found)

    with pytest.raises(FileNotFoundError):
        reading.with_archive(use)
    assert len(uses) == READ_ATTEMPTS


class Pending:
    """An archive with a batch that is half there. Each look at it may make a step of its run."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, looks_of_a_step: int) -> None:
        run(directory)
        self.archive, self.looks, self._looks_of_a_step = LocalStorage(directory), 0, looks_of_a_step
        self._commits, kept = ArchiveCommits(self.archive), list[ArchiveCommit]()
        with monkeypatch.context() as unfinished:
            unfinished.setattr(self._commits, "_complete", kept.append)
            write_batch(self._commits, directory, BATCHES)
        [self._commit] = kept
        self._left = list(self._commit.moves().items())
        monkeypatch.setattr(archived, "time", SimpleNamespace(sleep=self._look))

    def _look(self, _: float) -> None:
        self.looks += 1
        if self.looks % self._looks_of_a_step == 0:
            if self._left:
                self.archive.rename(*self._left.pop())
            else:
                self._commits._complete(self._commit)

    def settled(self) -> tuple[ArchiveClaims, FoundFiles]:
        return settled_files(self.archive, claims_of(self.archive))


def test_a_run_that_moves_files_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pending = Pending(tmp_path, monkeypatch, archived.STILL_LOOKS)
    claims, found = pending.settled()
    assert (claims.is_pending, pending.looks) == (False, (FILES + 1) * archived.STILL_LOOKS)
    assert len(records_of(tmp_path, found.paths)) == (BATCHES + 1) * FILES * FILE_RECORDS


def test_a_run_that_moves_no_file_for_a_while_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pending = Pending(tmp_path, monkeypatch, archived.STILL_LOOKS + 1)
    claims, found = pending.settled()
    assert (claims.is_pending, pending.looks) == (True, archived.STILL_LOOKS)
    with pytest.raises(PipelineError, match="has a batch that is half written"):
        require_settled(ArchivedRecords(claims, None, found.damages), "lake")  # type: ignore[arg-type]


def test_an_archive_of_which_each_look_finds_half_a_batch_is_not_read_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path)
    claims = claims_of(LocalStorage(tmp_path))
    looks = [claims._replace(is_pending=True, ends={ORDERS: end}) for end in range(3)]
    monkeypatch.setattr(archived, "LOOKS_MAX", len(looks))
    monkeypatch.setattr(archived, "claims_of", lambda _: looks.pop())
    with pytest.raises(PipelineError, match="changes faster than it is read"):
        settled_files(LocalStorage(tmp_path), looks.pop())
    assert looks == []


def test_damages_of_an_archive_that_never_settles_are_no_losses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path)
    claims = claims_of(LocalStorage(tmp_path))
    ends = iter(range(100))
    monkeypatch.setattr(archived, "claims_of", lambda _: claims._replace(ends={ORDERS: next(ends)}))
    assert settled_files(LocalStorage(tmp_path), claims)[1].damages == []
    for path in (tmp_path / DAY).iterdir():
        path.unlink()
    with pytest.raises(PipelineError, match="changes faster than it is read: try again"):
        settled_files(LocalStorage(tmp_path), claims)


def test_the_claims_of_a_table_are_those_of_the_snapshot_that_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at the table finds a new snapshot each time, and the one before is expired."""
    looks = []

    def loaded(*_: object) -> Any:
        looks.append(1)
        number = len(looks)
        snapshot = SimpleNamespace(snapshotId=lambda: number)
        return SimpleNamespace(currentSnapshot=lambda: snapshot, snapshot=lambda _: None, number=number)

    read: Any = SimpleNamespace(option=lambda _, number: SimpleNamespace(table=lambda _: number))
    spark: Any = SimpleNamespace(read=read, catalog=SimpleNamespace(tableExists=bool), table=str)
    monkeypatch.setattr(archived, "loaded", loaded)
    monkeypatch.setattr(archived, "table_name", lambda _, place: place)
    monkeypatch.setattr(archived, "require_columns", lambda *_: None)
    monkeypatch.setattr(archived, "with_times", lambda records: records)
    monkeypatch.setattr(archived, "_table_claims", lambda _, __, table: table.number)
    found: list[Any] = []

    def use(read: ArchivedRecords) -> None:
        found.append((read.claims, read.records))
        raise ValueError("expired")

    with pytest.raises(ValueError, match="expired"):
        archived.with_archive(spark, CompactSettings("c.n.t", "", "iceberg"), "compact", use, lambda _: None)
    assert found == [(number, number) for number in range(1, 2 * READ_ATTEMPTS, 2)]


# ---- damages


def test_a_missing_and_a_changed_file_are_named_and_a_foreign_one_is_not_read(tmp_path: Path) -> None:
    commits = ArchiveCommits(LocalStorage(tmp_path))
    commits.open("run", is_new=True)
    for batch in range(2):
        write_batch(commits, tmp_path, batch)
    one, two = (tmp_path / DAY / f"batch-{index}-0.parquet" for index in range(2))
    one.rename(tmp_path / DAY / "renamed.parquet")
    size = two.stat().st_size
    two.write_bytes(two.read_bytes()[:-1])
    claims, found = claims_first(LocalStorage(tmp_path))
    assert found.damages == [
        f"{DAY}/batch-0-0.parquet is missing, which has 5 records",
        f"{DAY}/batch-1-0.parquet has {size - 1:,} bytes in place of {size:,}",
    ]
    assert f"{DAY}/renamed.parquet" not in found.paths
    assert look_up(LocalStorage(tmp_path), claims, ("other",)) == FoundFiles([], [])


def test_a_damaged_list_of_files_is_named(tmp_path: Path) -> None:
    run(tmp_path)
    [path] = (tmp_path / LISTS).iterdir()
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(StateConflict, match=rf"{path.name} is damaged"):
        claims_of(LocalStorage(tmp_path))
    path.unlink()
    with pytest.raises(PipelineError, match=rf"{path.name}: No such file"):
        claims_of(LocalStorage(tmp_path))


def test_a_merge_with_other_records_is_refused() -> None:
    one, two = (ArchivedFile(9, [OffsetRange(index, 0, 4, 5, 7)]) for index in range(2))
    assert unlike_partitions([one, two], [two, one]) == []
    altered = ArchivedFile(9, [OffsetRange(0, 0, 4, 5, 8)])
    for merged in ([altered, two], [two], [one, two, ArchivedFile(9, [OffsetRange(0, 5, 5, 1, 0)])]):
        assert unlike_partitions([one, two], merged) == [0]
    assert unlike_partitions([one], [one, two]) == [1]


# ---- archives of before


def test_an_archive_of_an_earlier_version_goes_on_and_names_its_batches(tmp_path: Path) -> None:
    """A summary of the batches 0 to 4, and a commit of batch 5, as the last release has written them."""
    storage = LocalStorage(tmp_path)
    storage.write("_pykbroker/archive.json", b'{"run_id":"run"}')
    storage.write(
        SUMMARY,
        b'{"batch":4,"files":{},"ranges":[{"topic":"orders","partition":0,"first":0,"last":9,"count":10},{"topic":'
        b'"orders","partition":1,"first":0,"last":0,"count":1}],"ends":{"orders":{"0":10,"1":1}},"skipped":[]}',
    )
    storage.write(
        f"{COMMITS}/0000000005{DONE}",
        b'{"batch":5,"files":{"batch-5-x/topic=orders/date=2026-11-24/part-0.parquet":'
        b'"topic=orders/date=2026-11-24/batch-5-0.parquet"},"ranges":[{"topic":"orders","partition":0,"first":10,'
        b'"last":14,"count":5}],"ends":{"orders":{"0":15,"1":1}},"skipped":[]}',
    )
    write_file(tmp_path / DAY / "merged.parquet", range(10))
    write_file(tmp_path / DAY / "batch-5-0.parquet", range(10, 15))
    commits = ArchiveCommits(storage)
    commits.open("run", is_new=False)
    write_batch(commits, tmp_path, 6)
    for step in range(2):
        claims, found = claims_first(storage)
        assert claims.unproven == ((0, 5),), step
        assert claims.ranges[ORDERS] == ArchivedRange(0, 0, 69, 25, topic="orders")
        assert claims.proven == {ORDERS: ArchivedRange(0, 60, 69, 10, checksum(range(60, 70)), topic="orders")}
        assert sorted(claims.files or {}) == [f"{DAY}/batch-6-0.parquet", f"{DAY}/batch-6-1.parquet"]
        assert len(records_of(tmp_path, found.paths)) == 25
        commits.fold(0)
    assert unproven_note(claims.unproven).startswith("the batches of an earlier version (0 to 5) are proven by")
    (tmp_path / DAY / "batch-6-1.parquet").unlink()
    assert claims_first(storage)[1].damages == [f"{DAY}/batch-6-1.parquet is missing, which has 5 records"]


def test_batches_without_contents_are_summed_to_spans() -> None:
    old = [ArchiveCommit(batch, {"a": "b"}, [ArchivedRange(0, 0, 0, 1, topic="t")]) for batch in (0, 1, 3)]
    new = ArchiveCommit(2, {}, [ArchivedRange(1, 0, 0, 1, 5, topic="t")], contents={"topic=t/x": ArchivedFile(1, [])})
    empty = ArchiveCommit(4, {}, [])
    total = summed([old[0], old[1], new, old[2], empty])
    assert total.unproven == [(0, 1), (3, 3)]
    assert [each.checksum for each in total.ranges] == [None, 5]
    assert unproven_note([]) == ""


def test_ranges_without_checksums_are_summed_apart_and_end_the_proof_of_earlier_ones() -> None:
    before, later = ArchivedRange(0, 0, 4, 5, topic="t"), ArchivedRange(0, 7, 7, 1, topic="t")
    newer = [ArchivedRange(0, first, first, 1, first, topic="t") for first in (5, 6)]
    both = ArchivedRange(0, 5, 6, 2, 5 ^ 6, topic="t")
    assert summed_ranges([before, *newer]) == summed_ranges([before, both]) == [before, both]
    assert summed_ranges([before, *newer, later]) == [ArchivedRange(0, 0, 7, 8, topic="t")]
    assert summed_ranges([*newer, later, ArchivedRange(0, 8, 8, 1, 3, topic="t")]) == [
        ArchivedRange(0, 5, 7, 3, topic="t"),
        ArchivedRange(0, 8, 8, 1, 3, topic="t"),
    ]


def test_the_batches_of_before_are_said_until_there_are_newer_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(tmp_path)
    storage.write("_pykbroker/archive.json", b'{"run_id":"run"}')
    storage.write(
        f"{COMMITS}/0000000000{DONE}",
        b'{"batch":0,"files":{"a":"b"},"ranges":[{"topic":"orders","partition":0,"first":0,"last":9,"count":10}]}',
    )
    said: list[str] = []
    spark: Any = Session(storage)
    for batch in (1, 2):
        ParquetFiles(spark, storage, 1, said.append).open("run", is_new=False)
        write_batch(ArchiveCommits(storage), tmp_path, batch)
    [line] = said
    assert line.startswith("archive: the batches of an earlier version (0) are proven by the numbers")
    assert line.endswith("for theirs. New batches have checksums")


def test_a_commit_is_read_as_it_was_written() -> None:
    contents = {f"{DAY}/batch-3-00000-u.parquet": ArchivedFile(5, [OffsetRange(0, 1, 2, 2, -(1 << 63))])}
    commit = ArchiveCommit(3, {}, ranges_of(contents), {}, [], "_pykbroker/staging/run-0123abcd/batch-3", contents)
    assert msgspec.json.decode(msgspec.json.encode(commit), type=ArchiveCommit) == commit
    assert commit.moves() == {
        f"_pykbroker/staging/run-0123abcd/batch-3/{DAY}/part-00000-u.parquet": f"{DAY}/batch-3-00000-u.parquet"
    }
    assert contents[f"{DAY}/batch-3-00000-u.parquet"].rows == 2
