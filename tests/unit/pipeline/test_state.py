"""The run manifest beside a checkpoint: what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykbroker.pipeline.cluster import ClusterFacts
from pykbroker.pipeline.errors import StateConflict
from pykbroker.pipeline.state import MANIFEST, RunManifest, note_run, planned_run, read_manifest, remember_topics
from pykbroker.pipeline.storage import LocalStorage

FACTS = ClusterFacts("cluster-1", {"orders": "id-1", "users": "id-2"}, {"orders": 2, "users": 1})
OPTIONS = {"target": "/lake", "format": "parquet", "connector": "jvm"}


def begin_run(checkpoint: LocalStorage, job: str, facts: ClusterFacts, options: Mapping[str, str]) -> RunManifest:
    manifest = planned_run(checkpoint, job, facts, options)
    note_run(checkpoint, manifest)
    return manifest


def test_a_run_is_continued_with_its_id(tmp_path: Path) -> None:
    checkpoint = LocalStorage(tmp_path / "checkpoint")
    first = begin_run(checkpoint, "archive", FACTS, OPTIONS)
    assert begin_run(checkpoint, "archive", FACTS, OPTIONS) == first
    assert begin_run(LocalStorage(tmp_path / "other"), "archive", FACTS, OPTIONS).run_id != first.run_id


def test_new_topics_are_added_and_others_kept(tmp_path: Path) -> None:
    checkpoint = LocalStorage(tmp_path)
    first = begin_run(checkpoint, "archive", FACTS, OPTIONS)
    late = replace(FACTS, topic_ids={"late": "id-3", "users": "id-2"})
    ids = {"orders": "id-1", "users": "id-2", "late": "id-3"}
    assert begin_run(checkpoint, "archive", late, OPTIONS).topic_ids == ids
    assert read_manifest(checkpoint) == replace(first, topic_ids=ids)
    assert remember_topics(checkpoint, read_manifest(checkpoint), {"more": "id-4"}).topic_ids["more"] == "id-4"
    assert read_manifest(checkpoint).topic_ids["more"] == "id-4"
    with pytest.raises(StateConflict, match="topic late was deleted and created again"):
        remember_topics(checkpoint, read_manifest(checkpoint), {"late": "id-5"})


@pytest.mark.parametrize(
    ("job", "facts", "options", "message"),
    [
        ("replay", FACTS, OPTIONS, "is a checkpoint of the job 'archive', not of 'replay'"),
        (
            "archive",
            replace(FACTS, cluster_id="2"),
            OPTIONS,
            "belongs to the cluster cluster-1, and the brokers are of 2",
        ),
        (
            "archive",
            FACTS,
            {**OPTIONS, "connector": "python"},
            "belongs to a run with connector=jvm, not connector=python: go on with --connector jvm",
        ),
        (
            "archive",
            FACTS,
            {"target": "/other"},
            "belongs to a run with target=/lake, not target=/other: give --moved if it was moved there from /lake",
        ),
        (
            "archive",
            replace(FACTS, topic_ids={"orders": "id-9"}),
            OPTIONS,
            "topic orders was deleted and created again since .* began",
        ),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(
    tmp_path: Path, job: str, facts: ClusterFacts, options: dict[str, str], message: str
) -> None:
    checkpoint = LocalStorage(tmp_path)
    first = begin_run(checkpoint, "archive", FACTS, OPTIONS)
    with pytest.raises(StateConflict, match=message):
        begin_run(checkpoint, job, facts, options)
    assert read_manifest(checkpoint) == first


def test_a_target_is_the_same_in_every_spelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    checkpoint = LocalStorage(tmp_path / "checkpoint")
    monkeypatch.chdir(tmp_path)
    first = begin_run(checkpoint, "archive", FACTS, {"target": str(tmp_path / "lake")})
    for spelling in ("lake", "link", f"{tmp_path}/x/../lake/", f"file://{tmp_path}/link"):
        assert begin_run(checkpoint, "archive", FACTS, {"target": spelling}) == first
    with pytest.raises(StateConflict, match="give --moved"):
        begin_run(checkpoint, "archive", FACTS, {"target": "other"})


def test_a_target_that_was_moved_is_noted(tmp_path: Path) -> None:
    checkpoint = LocalStorage(tmp_path)
    first = begin_run(checkpoint, "archive", FACTS, OPTIONS)
    there = {**OPTIONS, "target": "/other"}
    with pytest.raises(StateConflict, match="connector=jvm, not connector=python"):
        planned_run(checkpoint, "archive", FACTS, {**there, "connector": "python"}, is_moved=True)
    moved = planned_run(checkpoint, "archive", FACTS, there, is_moved=True)
    assert moved == replace(first, options=there)
    assert read_manifest(checkpoint) == first
    note_run(checkpoint, moved)
    assert begin_run(checkpoint, "archive", FACTS, there) == moved
    with pytest.raises(StateConflict, match="belongs to a run with target=/other, not target=/lake"):
        begin_run(checkpoint, "archive", FACTS, OPTIONS)


def test_a_directory_with_other_files_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "offsets").touch()
    with pytest.raises(StateConflict, match=r"has files, but no run\.json: it is the checkpoint of something else"):
        begin_run(LocalStorage(tmp_path), "archive", FACTS, OPTIONS)
    assert not (tmp_path / MANIFEST).exists()


def test_a_planned_run_writes_nothing(tmp_path: Path) -> None:
    checkpoint = LocalStorage(tmp_path)
    planned_run(checkpoint, "archive", FACTS, OPTIONS)
    assert checkpoint.files() == []
    first = begin_run(checkpoint, "archive", FACTS, OPTIONS)
    planned_run(checkpoint, "archive", replace(FACTS, topic_ids={"late": "id-3"}), OPTIONS)
    assert read_manifest(checkpoint) == first


def test_a_lock_is_no_other_file(tmp_path: Path) -> None:
    checkpoint = LocalStorage(tmp_path)
    with checkpoint.lock("lock"):
        begin_run(checkpoint, "archive", FACTS, OPTIONS)


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text('{"run_id": 1}')
    with pytest.raises(StateConflict, match=r"run\.json is damaged"):
        begin_run(LocalStorage(tmp_path), "archive", FACTS, OPTIONS)
