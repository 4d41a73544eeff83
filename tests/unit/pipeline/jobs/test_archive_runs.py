"""The runs of `archive` around batches that a crash has left, new partitions and new topics, with a model of Spark."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pykbroker.pipeline import local_files
from pykbroker.pipeline.cluster import ClusterFacts, LogEnds
from pykbroker.pipeline.errors import PipelineError, RecordsLost, StateConflict
from pykbroker.pipeline.jobs import archive as archive_job
from pykbroker.pipeline.jobs.archive import IDLE_RUNS_MAX, ArchiveJob
from pykbroker.pipeline.report import ExitCode
from pykbroker.pipeline.spark_offsets import last_done, left_batch, planned_ends
from pykbroker.pipeline.state import MANIFEST, planned_run
from pykbroker.pipeline.storage import LocalStorage
from tests.unit.pipeline.jobs.archive_model import CUTS, KINDS, ORDERS, OTHER, SECOND, Archive, new_archive
from tests.unit.pipeline.jobs.spark_model import ModelQuery, ModelTopics, plan


@pytest.fixture(params=KINDS)
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    return new_archive(request.param, tmp_path, monkeypatch)


def test_the_error_of_a_batch_is_raised_also_if_the_query_ends_without_one(
    lake: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark looks for words in the text of an error by a pattern that overflows the stack of its thread."""
    waiting = ModelQuery.awaitTermination

    def ended(query: ModelQuery, poll_s: float) -> bool:
        with suppress(PipelineError):
            return waiting(query, poll_s)
        return True

    monkeypatch.setattr(ModelQuery, "awaitTermination", ended)
    lake.sink.fails = PipelineError("no space left")
    with pytest.raises(PipelineError, match="no space left"):
        lake.run()
    assert left_batch(lake.checkpoint) == 0


def test_a_run_without_a_left_batch_has_one_query(lake: Archive) -> None:
    lake.run()
    assert lake.triggers == [{"availableNow": True}]
    assert lake.sink.offsets(ORDERS) == [0, 1, 2, 3, 4]


class AwayTopics(ModelTopics):
    """Topics of brokers that are away once a query reads them. `looks` are answered before."""

    def __init__(self, looks: int, **logs: tuple[int, int]) -> None:
        super().__init__(**logs)
        self._looks = looks

    def facts(self, *arguments: Any) -> ClusterFacts:
        self._looks -= 1
        if self._looks < 0:
            raise PipelineError("b:9092: no answer within 60 s")
        return super().facts(*arguments)


@pytest.mark.parametrize(
    ("looks", "reason"),
    [
        (1, "orders-0 starts from 8 instead of 5"),
        (2, "orders-0: the offsets 5 to 7 are deleted, and the log begins at 8"),
    ],
)
def test_a_loss_is_one_though_the_brokers_are_away_behind_it(lake: Archive, looks: int, reason: str) -> None:
    lake.run()
    lake.topics.logs = {ORDERS: (8, 9)}
    job = lake.job()
    vars(job)["_cluster"] = AwayTopics(looks, orders0=(8, 9))
    report = job.report(dict)
    assert (report.exit_code, report.figures) == (ExitCode.LOSS, {})
    assert report.losses == [f"{reason}; if that is known, go on with the rest by --kafka failOnDataLoss=false"]


@pytest.mark.parametrize("first", [5, 8])
def test_a_run_that_fails_behind_a_loss_reports_it(lake: Archive, first: int) -> None:
    """The archive has skipped the offsets, so the next run says nothing about them."""
    lake.run()
    lake.every_s, lake.topics.logs = 1.0, {ORDERS: (first, 9)}
    job, write = lake.job(failOnDataLoss="false"), lake.sink.write

    def written(*arguments: Any) -> int:
        count = write(*arguments)
        lake.sink.fails, lake.topics.logs = PipelineError("no space left"), {ORDERS: (first, 10)}
        return count

    vars(lake.sink)["write"] = written
    if first == 5:
        with pytest.raises(PipelineError, match="no space left"):
            job.report(dict)
    else:
        report = job.report(dict)
        assert (report.exit_code, report.figures) == (ExitCode.LOSS, {"error": "no space left"})
        assert report.losses == ["orders-0: the topic had deleted the offsets 5 to 7 before they were archived"]
        assert "archive: no space left" in lake.lines


@pytest.mark.parametrize("has_batch", [False, True])
def test_a_killed_run_goes_on_after_a_new_partition(lake: Archive, has_batch: bool) -> None:
    if has_batch:
        lake.run()
    lake.topics = ModelTopics(orders0=(0, 8))
    lake.kill_in_batch()
    lake.topics = ModelTopics(orders0=(0, 9), orders1=(0, 880))
    lake.run()
    assert lake.sink.offsets(ORDERS) == list(range(9))
    assert lake.sink.offsets(SECOND) == list(range(880))
    assert [dict(each) for each in lake.triggers[-2:]] == [{"processingTime": "365 days"}, {"availableNow": True}]


def test_a_killed_run_goes_on_after_a_new_topic(lake: Archive) -> None:
    lake.run()
    lake.topics = ModelTopics(orders0=(0, 8))
    lake.kill_in_batch()
    lake.topics = ModelTopics(orders0=(0, 8), others0=(0, 3))
    lake.run()
    assert (lake.sink.offsets(ORDERS), lake.sink.offsets(OTHER)) == (list(range(8)), [0, 1, 2])


def test_a_killed_run_that_may_skip_goes_on_after_a_deleted_partition(lake: Archive) -> None:
    lake.topics = ModelTopics(orders0=(0, 5), others0=(0, 3))
    lake.run()
    lake.topics = ModelTopics(orders0=(0, 8), others0=(0, 4))
    lake.kill_in_batch()
    lake.topics = ModelTopics(orders0=(0, 9))
    lake.run(failOnDataLoss="false")
    assert lake.sink.offsets(ORDERS) == list(range(9))


def test_a_batch_that_is_in_the_archive_is_not_written_again(lake: Archive) -> None:
    lake.run()
    lake.checkpoint.delete("spark/commits/0")
    lake.topics = ModelTopics(orders0=(0, 6), orders1=(0, 2))
    lake.run()
    assert "archive: batch 0 is written already" in lake.lines
    assert (lake.sink.offsets(ORDERS), lake.sink.offsets(SECOND)) == (list(range(6)), [0, 1])


def test_a_run_that_never_reaches_the_ends_says_what_is_missing(lake: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.run()
    lake.topics = ModelTopics(orders0=(0, 7))
    monkeypatch.setattr(ModelQuery, "awaitTermination", lambda *_: True)
    with pytest.raises(
        PipelineError, match=r"before the ends .*: orders-0 is read up to offset 5 of 7\. Start the job"
    ):
        lake.run()
    assert len(lake.triggers) == 1 + IDLE_RUNS_MAX


def test_a_query_that_ends_before_the_left_batch_is_an_error(lake: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.kill_in_batch()
    monkeypatch.setattr(ModelQuery, "awaitTermination", lambda *_: True)
    with pytest.raises(PipelineError, match="Spark has stopped before batch 0 was done"):
        lake.run()


def test_a_new_topic_begins_at_its_start(lake: Archive) -> None:
    lake.run()
    lake.topics = ModelTopics(orders0=(0, 6), others0=(40, 100))
    lake.run()
    assert lake.sink.offsets(OTHER) == list(range(40, 100))
    assert "archive: others-0 is new, and begins at offset 40, where its log begins" in lake.lines


def test_a_topic_that_appears_during_a_run_begins_at_its_start(lake: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.run()
    reach = ArchiveJob._reach

    def late(job: ArchiveJob, ends: LogEnds) -> None:
        lake.topics.logs |= {OTHER: (40, 100)}
        reach(job, ends)

    monkeypatch.setattr(ArchiveJob, "_reach", late)
    lake.run()
    assert lake.sink.offsets(OTHER) == list(range(40, 100))


def test_an_archive_that_a_new_topic_had_stopped_goes_on(lake: Archive) -> None:
    lake.run()
    plan(lake.checkpoint, 1, {ORDERS: 5, OTHER: 90})  # as released versions have left it
    lake.topics = ModelTopics(orders0=(0, 6), others0=(40, 100))
    lake.run()
    assert (lake.sink.offsets(ORDERS), lake.sink.offsets(OTHER)) == (list(range(6)), list(range(40, 100)))


def test_what_a_new_topic_loses_after_it_was_seen_is_a_loss(lake: Archive) -> None:
    lake.run()
    lake.topics = ModelTopics(orders0=(0, 6), others0=(40, 100))
    lake.kill_in_batch()
    lake.topics = ModelTopics(orders0=(0, 6), others0=(41, 100))
    with pytest.raises(RecordsLost, match="others-0"):
        lake.run()


def test_what_a_topic_loses_after_it_appeared_in_a_run_is_a_loss(
    lake: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.run()
    finish = ArchiveJob._finish_left

    def late(job: ArchiveJob) -> None:
        lake.topics.logs |= {OTHER: (0, 100)}
        finish(job)

    monkeypatch.setattr(ArchiveJob, "_finish_left", late)
    lake.kill_in_batch()
    monkeypatch.setattr(ArchiveJob, "_finish_left", finish)
    lake.topics.logs[OTHER] = (41, 100)
    with pytest.raises(RecordsLost, match="others-0"):
        lake.run()


def test_what_a_new_partition_has_lost_is_a_loss(lake: Archive) -> None:
    lake.run()
    lake.topics = ModelTopics(orders0=(0, 6), orders1=(40, 100))
    with pytest.raises(RecordsLost, match="orders-1"):
        lake.run()
    assert lake.sink.offsets(SECOND) == []


def test_a_topic_that_is_left_out_after_a_failed_run_is_named(lake: Archive) -> None:
    lake.topics = ModelTopics(orders0=(0, 5), others0=(0, 3))
    lake.run()
    lake.pattern = "orders"
    plan(lake.checkpoint, 1, {ORDERS: 5})  # by a run that might skip, and has failed
    with pytest.raises(StateConflict, match="topic others was archived before, and is left out now"):
        lake.run()


def test_a_damaged_checkpoint_is_refused_before_a_query_begins(lake: Archive) -> None:
    lake.run()
    lake.checkpoint.write("spark/metadata", b"")
    with pytest.raises(StateConflict, match="spark/metadata is empty"):
        lake.run()
    assert len(lake.triggers) == 1


def test_a_first_run_keeps_another_one_with_its_own_checkpoint_out(
    lake: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Archive(LocalStorage(tmp_path / "other"), lake.kind)

    def begun(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(archive_job, "planned_run", planned_run)
        monkeypatch.setattr(archive_job, "places", lambda *_: (LocalStorage(tmp_path / "lake"), other.checkpoint))
        with pytest.raises(StateConflict, match="another process is working on .*lake now"):
            other.run()
        return planned_run(*arguments, **options)

    monkeypatch.setattr(archive_job, "planned_run", begun)
    lake.run()
    assert (lake.sink.offsets(ORDERS), other.sink.batches) == ([0, 1, 2, 3, 4], {})


@pytest.mark.parametrize("is_there", [False, True])
def test_a_run_that_is_refused_leaves_nothing_in_a_new_target(lake: Archive, tmp_path: Path, is_there: bool) -> None:
    if is_there:
        (tmp_path / "lake").mkdir()
    lake.checkpoint.write("notes.txt", b"mine")
    with pytest.raises(StateConflict, match="it is the checkpoint of something else"):
        lake.run()
    assert sorted(tmp_path.rglob("lake*")) == [tmp_path / "lake"] * is_there
    assert list(tmp_path.glob("lake/*")) == []
    assert [each.path for each in lake.checkpoint.files()] == ["notes.txt"]


@pytest.mark.parametrize("content", [*CUTS, None])
@pytest.mark.parametrize("name", ["offsets/1", "offsets/0"])
def test_the_plan_of_a_batch_that_is_archived_is_mended(lake: Archive, name: str, content: bytes | None) -> None:
    lake.run()
    lake.topics = ModelTopics(orders0=(0, 8), others0=(0, 3))
    if content is None and name == "offsets/1":
        lake.run()  # a plan that is gone is missed if its batch is done
    else:
        lake.kill_after_batch()
    lake.damage(name, content)
    lake.topics = ModelTopics(orders0=(0, 10), others0=(0, 4))
    lake.run()
    assert (lake.sink.offsets(ORDERS), lake.sink.offsets(OTHER)) == (list(range(10)), list(range(4)))
    [line] = [line for line in lake.lines if "is written again from the commits of the target" in line]
    assert f"checkpoint/spark/{name} was " in line
    assert not lake.checkpoint.exists(f"spark/offsets/.{name[-1]}.crc")


def test_the_plan_of_a_batch_that_is_not_archived_is_deleted_as_the_error_says(lake: Archive) -> None:
    lake.run()
    lake.topics = ModelTopics(orders0=(0, 8))
    lake.kill_in_batch()
    lake.damage("offsets/1", b"")
    lake.topics = ModelTopics(orders0=(0, 10))
    with pytest.raises(StateConflict, match="offsets/1 is empty. What to do: delete it, and the next run plans the"):
        lake.run()
    lake.checkpoint.delete("spark/offsets/1")
    lake.run()
    assert lake.sink.offsets(ORDERS) == list(range(10))


@pytest.mark.parametrize("content", CUTS)
def test_a_batch_after_which_topics_began_stays_done(lake: Archive, content: bytes) -> None:
    lake.run()
    lake.topics = ModelTopics(orders0=(0, 5), others0=(3, 6))
    lake.kill_in_batch()
    lake.checkpoint.delete("spark/offsets/1")
    assert planned_ends(lake.checkpoint, 0) == {"orders": {"0": 5}, "others": {"0": 3}}
    lake.damage("commits/0", content)
    lake.run()
    assert (lake.sink.offsets(ORDERS), lake.sink.offsets(OTHER)) == (list(range(5)), [3, 4, 5])
    assert len([line for line in lake.lines if "spark/commits/0 was " in line]) == 1


@pytest.mark.parametrize("name", ["offsets/0", "sources/0/0"])
def test_the_files_of_the_first_batch_are_mended(lake: Archive, name: str) -> None:
    lake.kill_after_batch()
    lake.damage(name, b"")
    lake.topics = ModelTopics(orders0=(0, 9))
    if lake.kind == "python" and name == "sources/0/0":
        with pytest.raises(StateConflict, match="sources/0/0 is empty"):
            lake.run()
        lake.checkpoint.delete("spark/sources/0/0")
    lake.run()
    assert lake.sink.offsets(ORDERS) == list(range(9))


def test_a_topic_that_was_left_out_before_is_in_no_plan(lake: Archive) -> None:
    """The sum of many commits has the ends of all topics that were ever archived."""
    lake.run()
    ends, ranges = lake.sink.batches[0]
    lake.sink.batches[0] = ends | {"left": {"0": 7}}, ranges
    lake.damage("offsets/0", b"")
    lake.run()
    assert planned_ends(lake.checkpoint, 0) == {"orders": {"0": 5}}


def test_the_plan_of_a_batch_is_durable_before_the_batch(lake: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(local_files, "sync", synced.append)
    lake.kill_in_batch()
    assert Path(lake.checkpoint.directory) / "spark/offsets/0" in synced


def move(lake: Archive, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Move the target, and its checkpoint with it."""
    target = LocalStorage(Path(lake.checkpoint.directory).with_name(place))
    monkeypatch.setattr(archive_job, "places", lambda *_: (target, lake.checkpoint))
    lake.is_moved = True


@pytest.mark.parametrize("refusal", ["option", "run", "batch", "left out", "damage"])
def test_a_move_is_noted_after_all_checks(lake: Archive, monkeypatch: pytest.MonkeyPatch, refusal: str) -> None:
    lake.topics = ModelTopics(orders0=(0, 5), others0=(0, 3))
    lake.run()
    before, opened = lake.checkpoint.read(MANIFEST), lake.sink.opened
    move(lake, "other", monkeypatch)
    lake.committed_only = refusal != "option"
    lake.sink.refuses = refusal
    if refusal == "left out":
        lake.pattern = "orders"
    if refusal == "damage":
        lake.checkpoint.write("spark/metadata", b"")
    with pytest.raises(StateConflict):
        lake.run()
    assert lake.checkpoint.read(MANIFEST) == before
    assert lake.sink.opened == opened + (refusal not in ("option", "run"))


def test_a_moved_archive_goes_on(lake: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.run()
    move(lake, "other", monkeypatch)
    lake.topics = ModelTopics(orders0=(0, 7))
    for _ in range(2):
        lake.run()
        lake.is_moved = False
    assert lake.sink.offsets(ORDERS) == list(range(7))


def test_a_new_run_that_the_target_refuses_leaves_no_manifest(lake: Archive) -> None:
    lake.sink.refuses = "run"
    with pytest.raises(StateConflict, match="another run"):
        lake.run()
    assert not lake.checkpoint.exists()
    lake.sink.refuses = ""
    lake.run()


def test_a_new_topic_is_noted_after_all_checks(lake: Archive) -> None:
    lake.run()
    before = lake.checkpoint.read(MANIFEST)
    lake.topics = ModelTopics(orders0=(0, 5), others0=(0, 3))
    lake.sink.refuses = "batch"
    with pytest.raises(StateConflict, match="an older archive"):
        lake.run()
    assert lake.checkpoint.read(MANIFEST) == before


def lose_left_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ArchiveJob, "_finish_left", lambda _: None)


def compare_no_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    lose_left_batches(monkeypatch)
    monkeypatch.setattr(archive_job, "missing_ends", lambda *_: [])


@pytest.mark.parametrize(("lake", "bug"), [("jvm", lose_left_batches), ("python", compare_no_ends)], indirect=["lake"])
def test_the_model_finds_a_planted_bug(
    lake: Archive, bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    lake.run()
    lake.topics = ModelTopics(orders0=(0, 8))
    lake.kill_in_batch()
    lake.topics = ModelTopics(orders0=(0, 8), orders1=(0, 5))
    if lake.kind == "jvm":
        with pytest.raises(PipelineError, match="SPARK-53560"):
            lake.run()
    else:
        lake.run()
    assert lake.sink.offsets(SECOND) == []
    assert last_done(lake.checkpoint) is not None
    assert planned_ends(lake.checkpoint, 1) == {"orders": {"0": 8}}


@pytest.mark.parametrize("is_left", [True, False])
def test_what_a_log_loses_behind_the_start_of_the_query_is_named(lake: Archive, is_left: bool) -> None:
    """The first batch was left, or there was nothing to read. The connector "python" notes the start alone then."""
    if is_left:
        lake.kill_in_batch()
    else:
        lake.topics.logs = {ORDERS: (0, 0)}
        lake.run()
    lake.topics.logs = {ORDERS: (2, 5)}
    job = lake.job(failOnDataLoss="false")
    job.run()
    assert lake.sink.offsets(ORDERS) == [2, 3, 4]
    skipped = [each.sentence() for each in job.skipped]
    assert skipped == ["orders-0: the topic had deleted the offsets 0 to 1 before they were archived"]
