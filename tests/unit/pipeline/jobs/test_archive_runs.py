"""The runs of `archive` around batches that a crash has left, new partitions and new topics, with a model of Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline import local_files
from pykbroker.pipeline.cluster import LogEnds
from pykbroker.pipeline.errors import PipelineError, RecordsLost, StateConflict
from pykbroker.pipeline.jobs import archive as archive_job
from pykbroker.pipeline.jobs.archive import IDLE_RUNS_MAX, ArchiveJob, ArchiveSettings
from pykbroker.pipeline.reading import TopicsToRead
from pykbroker.pipeline.session import PipelineSession
from pykbroker.pipeline.spark_offsets import Ends, by_partition, last_done, left_batch, merged_ends, planned_ends
from pykbroker.pipeline.state import MANIFEST, planned_run
from pykbroker.pipeline.storage import LocalStorage, Storage
from tests.unit.pipeline.jobs.spark_model import Kind, ModelQuery, ModelTopics, Ranges, plan

KINDS: list[Kind] = ["jvm", "python"]
ORDERS, SECOND, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("others", 0)


class Killed(BaseException):
    """The end of the process."""


class ModelSink:
    """A target that keeps the ranges of its batches. `fails` is raised in place of the next batch.

    `refuses` is what it does not take: a run, or its last batch.
    """

    def __init__(self) -> None:
        self.batches: dict[int, tuple[Ends, Ranges]] = {}
        self.opened, self.refuses = 0, ""
        self.fails: BaseException | None = None

    def require_archive(self) -> None:
        pass

    def require_run(self, run_id: str, *, is_new: bool) -> None:
        if self.refuses == "run":
            raise StateConflict("another run")

    def open(self, run_id: str, *, is_new: bool) -> None:
        self.opened += 1

    def require_batch(self, batch: int, planned: object) -> None:
        assert batch in self.batches
        if self.refuses == "batch":
            raise StateConflict("an older archive")

    def archived(self) -> Mapping[TopicPartition, int]:
        return by_partition(merged_ends(ends for ends, _ in self.batches.values()))

    def committed(self, batch: int, planned: object) -> Ends | None:
        return self.noted(batch)

    def noted(self, batch: int) -> Ends | None:
        return self.batches[batch][0] if batch in self.batches else None

    def write(self, records: Any, batch: int, ends: Ends, check: Callable[[Mapping[TopicPartition, int]], Any]) -> int:
        if self.fails is not None:
            failure, self.fails = self.fails, None
            raise failure
        check({})
        self.batches[batch] = ends, records
        return sum(end - first for first, end in records.values())

    def tidy(self) -> None:
        pass

    def close(self) -> None:
        pass

    def offsets(self, key: TopicPartition) -> list[int]:
        """Return the offsets of a partition in the order of the batches."""
        return [offset for _, ranges in self.batches.values() for offset in range(*ranges.get(key, (0, 0)))]


class Archive:
    """An archive of the topics that a pattern selects. Each run has a job of its own."""

    def __init__(self, checkpoint: Storage, kind: Kind) -> None:
        self.checkpoint, self.kind, self.pattern = checkpoint, kind, ".*"
        self.sink, self.topics, self.lines = ModelSink(), ModelTopics(orders0=(0, 5)), list[str]()
        self.triggers: list[Mapping[str, Any]] = []
        self.is_moved, self.committed_only = False, True
        self.every_s: float | None = None

    def job(self, **options: str) -> ArchiveJob:
        session = PipelineSession(None, self.kind, "")  # type: ignore[arg-type]
        source = TopicsToRead("b:9092", pattern=self.pattern, options=options, committed_only=self.committed_only)
        settings = ArchiveSettings(source, "lake", is_moved=self.is_moved, every_s=self.every_s)
        job = ArchiveJob(session, settings, self.lines.append, sink=lambda _: self.sink)
        fails_on_loss = options.get("failOnDataLoss") != "false"

        def start(trigger: Mapping[str, Any]) -> ModelQuery:
            self.triggers.append(trigger)
            write: Any = job._write
            return ModelQuery(self.kind, self.checkpoint, self.topics, trigger, write, fails_on_loss=fails_on_loss)

        vars(job).update(_cluster=self.topics, _start=start)
        return job

    def run(self, **options: str) -> None:
        self.job(**options).run()

    def kill_after_batch(self) -> None:
        """Run, and end the process when the next batch is written, before Spark counts it as done."""
        write = self.sink.write

        def killed(*arguments: Any) -> int:
            write(*arguments)
            raise Killed

        vars(self.sink)["write"] = killed
        with pytest.raises(Killed):
            self.run()
        del vars(self.sink)["write"]

    def damage(self, name: str, content: bytes | None) -> None:
        """Cut a file of Spark's checkpoint to a content, or delete it. Its checksum stays."""
        if content is None:
            self.checkpoint.delete(f"spark/{name}")
        else:
            self.checkpoint.write(f"spark/{name}", content)
        directory, _, base = f"spark/{name}".rpartition("/")
        self.checkpoint.write(f"{directory}/.{base}.crc", b"crc\0")

    def kill_in_batch(self) -> None:
        """Run, and end the process while the next batch is written."""
        self.sink.fails = Killed()
        with pytest.raises(Killed):
            self.run()
        assert left_batch(self.checkpoint) is not None


@pytest.fixture(params=KINDS)
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    target, checkpoint = LocalStorage(tmp_path / "lake"), LocalStorage(tmp_path / "checkpoint")
    monkeypatch.setattr(archive_job, "places", lambda *_: (target, checkpoint))
    monkeypatch.setattr(archive_job, "with_date", lambda records: records)
    monkeypatch.setattr("os.fsync", lambda _: None)
    return Archive(checkpoint, request.param)


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


CUTS = (b"", b"\0\0", b"v1\n{")


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


@pytest.mark.parametrize("hidden", [SECOND, OTHER])
def test_a_partition_that_old_metadata_hides_for_one_batch_is_archived_once(
    lake: Archive, hidden: TopicPartition
) -> None:
    """Spark begins a partition at 0 that its last batch does not have. The batches are of one query."""
    lake.every_s, write = 1.0, lake.sink.write
    logs = lake.topics.logs = {ORDERS: (0, 5), hidden: (0, 3)}
    looks = [{ORDERS: (0, 6)}, {ORDERS: (0, 7), hidden: (0, 4)}]

    def written(records: Any, batch: int, *rest: Any) -> int:
        if batch == 3:
            raise Killed
        count = write(records, batch, *rest)
        lake.topics.logs = looks[batch] if batch < len(looks) else {ORDERS: (0, 8), hidden: (0, 5)}
        return count

    vars(lake.sink)["write"] = written
    with pytest.raises(Killed):
        lake.run(failOnDataLoss="false")
    assert (lake.sink.offsets(ORDERS), lake.sink.offsets(hidden)) == (list(range(7)), [0, 1, 2, 3])
    assert f"archive: {hidden} goes on at offset 3, up to which it was archived before" in lake.lines
    assert logs.keys() == {ORDERS, hidden}


@pytest.mark.parametrize("may_skip", [True, False])
@pytest.mark.parametrize("back", [SECOND, OTHER])
def test_a_partition_that_is_back_goes_on_where_it_was_left(
    lake: Archive, back: TopicPartition, may_skip: bool
) -> None:
    """A topic was left out, or a partition hidden, in a run before. What the log has lost meanwhile is a loss."""
    lake.topics.logs = {ORDERS: (0, 5), back: (0, 3)}
    lake.run()
    lake.topics.logs = {ORDERS: (0, 8)}
    lake.run(failOnDataLoss="false")
    lake.topics.logs = {ORDERS: (0, 8), back: (2, 6)}
    lake.run()
    assert (lake.sink.offsets(ORDERS), lake.sink.offsets(back)) == (list(range(8)), list(range(6)))
    lake.topics.logs = {ORDERS: (0, 9)}
    lake.run(failOnDataLoss="false")
    lake.topics.logs = {ORDERS: (0, 9), back: (8, 10)}
    job, found = lake.job(failOnDataLoss="false" if may_skip else "true"), list(range(6))
    if may_skip:
        job.run()
        skipped, found = [each.sentence() for each in job.skipped], [*found, 8, 9]
        assert skipped == [f"{back}: the topic had deleted the offsets 6 to 7 before they were archived"]
    else:
        with pytest.raises(RecordsLost, match=f"{back}: the offsets 6 to 7 are deleted, and the log begins at 8"):
            job.run()
    assert lake.sink.offsets(back) == found


def test_a_batch_of_before_that_begins_a_hidden_partition_at_0_is_planned_again(lake: Archive) -> None:
    """A released version has planned the batch, and was killed."""
    lake.topics.logs = {ORDERS: (0, 5), SECOND: (0, 3)}
    lake.run()
    lake.topics.logs = {ORDERS: (0, 6)}
    lake.run(failOnDataLoss="false")
    plan(lake.checkpoint, 2, {ORDERS: 7, SECOND: 4})
    lake.topics.logs = {ORDERS: (0, 7), SECOND: (0, 5)}
    lake.run()
    assert (lake.sink.offsets(ORDERS), lake.sink.offsets(SECOND)) == (list(range(7)), list(range(5)))


@pytest.mark.parametrize("fails", ["true", "false"])
def test_the_plan_before_a_left_batch_is_mended_without_a_topic_that_the_batch_lacks(lake: Archive, fails: str) -> None:
    """The topic was left out, and is given again."""
    lake.topics.logs = {ORDERS: (0, 5), OTHER: (0, 3)}
    lake.run()
    lake.topics.logs = {ORDERS: (0, 6)}
    lake.run(failOnDataLoss="false")
    ends, ranges = lake.sink.batches[1]
    lake.sink.batches[1] = merged_ends([lake.sink.batches[0][0], ends]), ranges  # as a sum of commits has them
    lake.topics.logs = {ORDERS: (0, 7)}
    lake.kill_in_batch()
    lake.damage("offsets/1", b"")
    lake.topics.logs = {ORDERS: (0, 8), OTHER: (0, 4)}
    lake.run(failOnDataLoss=fails)
    assert (lake.sink.offsets(ORDERS), lake.sink.offsets(OTHER)) == (list(range(8)), list(range(4)))


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


def test_the_model_finds_partitions_that_begin_at_0_again(lake: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelSink, "archived", lambda _: {})
    for logs in ({ORDERS: (0, 5), SECOND: (0, 3)}, {ORDERS: (0, 6)}, {ORDERS: (0, 7), SECOND: (0, 4)}):
        lake.topics.logs = logs
        lake.run(failOnDataLoss="false")
    assert lake.sink.offsets(SECOND) == [0, 1, 2, 0, 1, 2, 3]
