"""The commits of an archive: whatever operation a crash stops, readers of the bare directory see each record once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.errors import StateConflict
from pykbroker.pipeline.jobs import small_files
from pykbroker.pipeline.jobs.commits import (
    COMMITS,
    PENDING,
    RUN,
    STAGING,
    ArchiveCommit,
    ArchiveCommits,
    ArchivedRange,
    archived_ends,
    require_same_ends,
    summed,
)
from pykbroker.pipeline.jobs.small_files import MERGED, crowded_days, replace_day
from pykbroker.pipeline.spark_offsets import Ends
from pykbroker.pipeline.storage import LocalStorage
from tests.unit.pipeline.jobs.crashes import CRASHES, OPERATIONS_MAX

BATCHES, FILES, FILE_RECORDS = 3, 2, 5
MERGING = f"{STAGING}/run-0123abcd"
DAY = "topic=orders/date=2026-11-24"


@pytest.fixture(autouse=True)
def in_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out fsync, which takes most of the time. Two small files are merged already."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(small_files, "FILES_MIN", 2)


def commits_of(directory: Path) -> ArchiveCommits:
    return ArchiveCommits(LocalStorage(directory))


def offsets_of(directory: Path) -> list[int]:
    """Return the offsets that pyarrow reads in a bare directory, sorted."""
    if not directory.exists():
        return []
    table = ds.dataset(directory, format="parquet", partitioning="hive", schema=pa.schema({"offset": pa.int64()}))
    return sorted(table.to_table().column("offset").to_pylist())


def write_file(path: Path, offsets: range) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"offset": list(offsets)}), path)


def staged(commits: ArchiveCommits, directory: Path, batch: int) -> ArchiveCommit:
    """Write the files of a batch, as Spark does, and return their commit."""
    size = FILES * FILE_RECORDS
    files = {}
    for index in range(FILES):
        name = f"{commits.staging}/batch-{batch}/{DAY}/part-{index}.parquet"
        first = batch * size + index * FILE_RECORDS
        write_file(directory / name, range(first, first + FILE_RECORDS))
        files[name] = f"{DAY}/batch-{batch}-{index}.parquet"
    found = ArchivedRange(0, batch * size, (batch + 1) * size - 1, size, topic="orders")
    return ArchiveCommit(batch, files, [found], {"orders": {"0": (batch + 1) * size}})


def run(directory: Path) -> None:
    """Archive all batches, as a job does that may have been killed before."""
    commits = commits_of(directory)
    commits.open("run", is_new=not (directory / "checkpoint").exists())
    for batch in range(BATCHES):
        commit = staged(commits, directory, batch)
        written = commits.committed(batch)
        if written is None:
            commits.commit(commit)
        elif batch == BATCHES - 1:
            require_same_ends(batch, written.ends, commit.ends, "here")
        commits.fold(1)
    commits.close()


def exhaust(action: Callable[[Path], None], prepare: Callable[[Path], None], tmp_path: Path) -> list[Path]:
    """Run an action in a directory for each of its operations, and end it there. Return the directories."""
    directories = []
    for step in range(1, OPERATIONS_MAX):
        directory = tmp_path / f"archive-{step}"
        prepare(directory)
        directories.append(directory)
        if not CRASHES.run(partial(action, directory), step):
            return directories
    raise AssertionError("the action has no end")


def test_a_crash_before_any_operation_of_a_run_loses_and_doubles_nothing(tmp_path: Path) -> None:
    directories = exhaust(run, lambda _: None, tmp_path)
    assert len(directories) > 70
    everything = list(range(BATCHES * FILES * FILE_RECORDS))
    for directory in directories:
        seen = Counter(offsets_of(directory))
        assert max(seen.values(), default=1) == 1, directory
        run(directory)
        assert offsets_of(directory) == everything, directory
        total = summed(commits_of(directory).all())
        assert (total.batch, total.ranges[0].count, total.ends) == (BATCHES - 1, 30, {"orders": {"0": 30}}), directory
        assert not commits_of(directory).is_pending()


def copied(directory: Path, content: bytes) -> Path:
    """Leave a pending commit as a store of objects does that has copied a file, but has not deleted its source."""
    commits = commits_of(directory)
    commits.open("run", is_new=True)
    commit = staged(commits, directory, 0)
    source, target = next(iter(commit.files.items()))
    LocalStorage(directory).write(target, content or (directory / source).read_bytes())
    LocalStorage(directory).write(f"{COMMITS}/0000000000{PENDING}", msgspec.json.encode(commit))
    return directory / source


def test_a_file_that_was_copied_but_not_deleted_is_there_once(tmp_path: Path) -> None:
    directory = tmp_path / "archive"
    source = copied(directory, b"")
    commits_of(directory).open("run", is_new=False)
    assert not source.exists()
    assert offsets_of(directory) == list(range(FILES * FILE_RECORDS))
    assert not commits_of(directory).is_pending()


def test_another_file_in_the_place_of_a_staged_one_is_kept(tmp_path: Path) -> None:
    source = copied(tmp_path / "archive", b"another")
    with pytest.raises(StateConflict, match="exists, but is no copy of the staged file"):
        commits_of(tmp_path / "archive").open("run", is_new=False)
    assert source.exists()


def test_a_file_that_is_in_neither_place_is_named_and_its_batch_is_not_done(tmp_path: Path) -> None:
    directory = tmp_path / "archive"
    copied(directory, b"").unlink()
    (directory / DAY / "batch-0-0.parquet").unlink()
    for _ in range(2):
        with pytest.raises(StateConflict, match=r"batch 0 is committed, but its file .*/batch-0-0\.parquet is gone"):
            commits_of(directory).open("run", is_new=False)
        assert commits_of(directory).is_pending()
        assert commits_of(directory).committed(0) is None
    write_file(directory / DAY / "batch-0-0.parquet", range(FILE_RECORDS))
    commits_of(directory).open("run", is_new=False)
    assert offsets_of(directory) == list(range(FILES * FILE_RECORDS))


def before(directory: Path) -> Path:
    """Leave an archive as an earlier version did that was killed before it moved the files. Return its staging."""
    commits, staging = commits_of(directory), Path(f"{directory}.staging")
    commits.open("run", is_new=True)
    files = {}
    for index in range(FILES):
        name = f"batch-0-0123abcd/{DAY}/part-{index}.parquet"
        write_file(staging / name, range(index * FILE_RECORDS, (index + 1) * FILE_RECORDS))
        files[name] = f"{DAY}/batch-0-{index}.parquet"
    (staging / "batch-0-0123abcd/_SUCCESS").touch()
    commit = msgspec.json.encode(ArchiveCommit(0, files, []))
    LocalStorage(directory).write(f"{COMMITS}/0000000000{PENDING}", commit)
    return staging


def test_a_pending_commit_of_an_earlier_version_is_completed_from_the_directory_beside(tmp_path: Path) -> None:
    staging = before(tmp_path / "archive")
    commits_of(tmp_path / "archive").open("run", is_new=False)
    assert offsets_of(tmp_path / "archive") == list(range(FILES * FILE_RECORDS))
    assert not staging.exists()


def test_of_the_directory_beside_only_what_the_commit_names_is_deleted(tmp_path: Path) -> None:
    staging = before(tmp_path / "archive")
    for name in ("cat.jpg", "batch-1-0123abcd/part", "state/part"):
        LocalStorage(staging).write(name, b"x")
    commits_of(tmp_path / "archive").open("run", is_new=False)
    assert [each.path for each in LocalStorage(staging).files()] == ["batch-1-0123abcd/part", "cat.jpg", "state/part"]


def test_nothing_but_the_directories_of_runs_is_deleted(tmp_path: Path) -> None:
    archive = LocalStorage(tmp_path / "archive")
    kept = [f"{STAGING}/{each}" for each in ("cat.jpg", "run-0123abcde/x", "run-backup/x", "xrun-0123abcd/x")]
    for name in (*kept, "../archive.staging/x", f"{STAGING}/run-0123abcd/x", f"{MERGING}/y"):
        archive.write(name, b"x")
    run(tmp_path / "archive")
    assert [each.path for each in archive.files(STAGING)] == kept
    assert (tmp_path / "archive.staging/x").exists()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["archive", "archive.staging"]


def test_a_run_leaves_no_staging_directory(tmp_path: Path) -> None:
    run(tmp_path)
    assert not (tmp_path / STAGING).exists()


def small(directory: Path) -> list[str]:
    return [each.path for each in crowded_days(LocalStorage(directory).files(), 10_000).get(DAY, [])]


def filled(directory: Path) -> None:
    """Write a day with two small files and a large one."""
    write_file(directory / DAY / "a.parquet", range(5))
    write_file(directory / DAY / "b.parquet", range(5, 10))
    write_file(directory / DAY / "large.parquet", range(10, 40_000))


def merge(directory: Path) -> None:
    archive = LocalStorage(directory)
    archive.delete_leftovers(STAGING, RUN)
    days = crowded_days(archive.files(), 10_000)
    if days:
        write_file(directory / MERGING / MERGED / DAY / "part-0.parquet", range(10))
        assert replace_day(archive, MERGING, DAY, days[DAY])


def test_a_crash_before_any_operation_of_a_merge_loses_and_doubles_nothing(tmp_path: Path) -> None:
    directories = exhaust(merge, filled, tmp_path)
    assert len(directories) > 10
    everything = list(range(40_000))
    found = set()
    for directory in directories:
        assert offsets_of(directory) == everything, directory
        found.add(len(list((directory / DAY).iterdir())))
        merge(directory)
        assert offsets_of(directory) == everything, directory
        assert sorted(each.name for each in (directory / DAY).iterdir()) == ["large.parquet", "part-0.parquet"]
        assert not (directory / MERGING / MERGED).exists()
    assert found == {2, 3}


def test_an_archive_belongs_to_the_run_that_began_it(tmp_path: Path) -> None:
    directory = tmp_path / "archive"
    run(directory)
    with pytest.raises(StateConflict, match="was written by a run with another checkpoint"):
        commits_of(directory).open("other", is_new=True)


def test_an_archive_that_is_gone_is_no_new_one(tmp_path: Path) -> None:
    with pytest.raises(StateConflict, match="is empty, but the checkpoint has the offsets of an archive there"):
        commits_of(tmp_path / "archive").open("run", is_new=False)


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "cat.jpg").write_bytes(b"cat")
    with pytest.raises(StateConflict, match="has files that are no archive: choose an empty directory"):
        commits_of(tmp_path).require_archive()
    commits_of(tmp_path / "new").require_archive()
    assert [each.name for each in tmp_path.iterdir()] == ["cat.jpg"]


def test_a_damaged_commit_is_named(tmp_path: Path) -> None:
    directory = tmp_path / "archive"
    run(directory)
    (directory / "_pykbroker/archive.json").write_bytes(b"{")
    with pytest.raises(StateConflict, match=r"archive/_pykbroker/archive\.json is damaged"):
        commits_of(directory).open("run", is_new=False)


def test_a_batch_with_other_ends_than_before_is_refused() -> None:
    ends = {"orders": {"0": 5}}
    require_same_ends(1, ends, dict(ends), "/lake")
    require_same_ends(1, {"orders": {"0": 5, "1": 7}, "left-out": {"0": 1}}, ends, "/lake")
    with pytest.raises(StateConflict, match="older than the archive"):
        require_same_ends(1, ends, {**ends, "new": {"0": 1}}, "/lake")
    with pytest.raises(StateConflict, match="older than the archive"):
        require_same_ends(1, ends, {"orders": {"0": 6}}, "/lake")
    both: Ends = {"orders": {"0": 5, "1": 3}}
    require_same_ends(1, ends, both, "/lake", {"orders": {"0": 2, "1": 3}})
    for previous in ({}, {"orders": {"1": 2}}, {"orders": {"0": 5}}):
        with pytest.raises(StateConflict, match="older than the archive"):
            require_same_ends(1, ends, both, "/lake", previous)
    with pytest.raises(StateConflict, match="older than the archive"):
        require_same_ends(1, {"orders": {"0": 5, "1": 4}}, both, "/lake", both)


def test_a_summary_knows_the_batches_that_it_contains(tmp_path: Path) -> None:
    directory = tmp_path / "archive"
    run(directory)
    commits = commits_of(directory)
    assert [each.batch for each in commits.all()] == [1, 2]
    assert commits.committed(0) == commits.committed(1) == commits.all()[0]
    assert commits.committed(2) == commits.all()[1]
    assert commits.committed(3) is None


def test_commits_are_summed_by_partition() -> None:
    one = ArchiveCommit(
        0, {"a": "b"}, [ArchivedRange(1, 0, 4, 5, topic="t"), ArchivedRange(0, 3, 3, 1, topic="t")], {"t": {"0": 4}}
    )
    two = ArchiveCommit(1, {}, [ArchivedRange(1, 7, 9, 3, topic="t")], {"t": {"0": 4, "1": 12}})
    both = [ArchivedRange(0, 3, 3, 1, topic="t"), ArchivedRange(1, 0, 9, 8, topic="t")]
    assert summed([one, two]) == ArchiveCommit(1, {}, both, two.ends, unproven=[(0, 1)])
    assert summed([]) == ArchiveCommit(-1, {}, [])


def test_the_ends_of_partitions_that_are_left_out_are_kept() -> None:
    ends: list[Ends] = [{"t": {"0": 4, "1": 3}, "u": {"0": 7}}, {"t": {"0": 5}}]
    commits = [ArchiveCommit(batch, {}, [], each) for batch, each in enumerate(ends)]
    assert summed(commits).ends == {"t": {"0": 5, "1": 3}, "u": {"0": 7}}
    assert ends == [{"t": {"0": 4, "1": 3}, "u": {"0": 7}}, {"t": {"0": 5}}]


def test_records_prove_how_far_partitions_are_archived_that_ends_of_before_lack() -> None:
    ranges = [
        ArchivedRange(0, 0, 3, 4, topic="t"),
        ArchivedRange(0, 4, 7, 4, 5, topic="t"),
        ArchivedRange(1, 2, 2, 1, topic="t"),
    ]
    assert archived_ends({"t": {"0": 9}, "u": {"0": 0}}, ranges) == {
        TopicPartition("t", 0): 9,
        TopicPartition("t", 1): 3,
        TopicPartition("u", 0): 0,
    }


def test_a_commit_of_before_ends_is_read() -> None:
    assert msgspec.json.decode(b'{"batch":1,"files":{},"ranges":[]}', type=ArchiveCommit).ends == {}
