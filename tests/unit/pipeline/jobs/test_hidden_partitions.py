"""The runs of `archive` around partitions that a batch lacks: hidden by brokers with old metadata, or left out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.cluster import LogEnds
from pykbroker.pipeline.errors import PipelineError, RecordsLost
from pykbroker.pipeline.jobs.archive import HIDDEN_MAX, IDLE_RUNS_MAX
from pykbroker.pipeline.spark_offsets import merged_ends
from tests.unit.pipeline.jobs.archive_model import KINDS, ORDERS, OTHER, SECOND, Archive, Killed, ModelSink, new_archive
from tests.unit.pipeline.jobs.spark_model import ModelTopics, plan


@pytest.fixture(params=KINDS)
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    return new_archive(request.param, tmp_path, monkeypatch)


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


@pytest.mark.parametrize("is_written", [False, True])
def test_a_left_batch_that_old_metadata_hides_a_partition_from_stops_no_archive(
    lake: Archive, is_written: bool
) -> None:
    """Spark takes the partition for a deleted one at each repeat, which is a loss unless it may skip records."""
    lake.topics.logs = {ORDERS: (0, 5), SECOND: (0, 3)}
    lake.run()
    lake.topics.logs = {ORDERS: (0, 6)}
    if is_written:
        lake.kill_after_batch(failOnDataLoss="false")
    else:
        with pytest.raises(RecordsLost, match="orders-1 is gone, which was read up to offset 3"):
            lake.run()
    lake.topics.logs = {ORDERS: (0, 7), SECOND: (0, 4)}
    lake.run()
    assert (lake.sink.offsets(ORDERS), lake.sink.offsets(SECOND)) == (list(range(7)), list(range(4)))
    assert "archive: orders-1 is not in the plan of the next batch, and stays at offset 3 there" in lake.lines


@pytest.mark.parametrize("first", [0, 2])
def test_a_new_partition_whose_start_spark_does_not_find_is_not_lost(lake: Archive, first: int) -> None:
    """A broker with old metadata hides it while Spark looks for its start. What its log has deleted is lost."""
    lake.run()
    lake.topics = ModelTopics(orders0=(0, 6), orders1=(0, 4))
    lake.kill_in_batch()
    job, write = lake.job(), lake.sink.write
    vars(job)["_cluster"] = ModelTopics(orders0=(0, 6), orders1=(first, 4))
    logs, lake.topics.logs, lake.topics.hidden = {ORDERS: (0, 6)}, {ORDERS: (0, 6)}, {SECOND: (first, 4)}

    def written(*arguments: Any) -> int:
        lake.topics.logs = logs | lake.topics.hidden
        return write(*arguments)

    vars(lake.sink)["write"] = written
    if first:
        with pytest.raises(RecordsLost, match="orders-1: the offsets 0 to 1 are deleted, and the log begins at 2"):
            job.run()
    else:
        job.run()
    assert (lake.sink.offsets(ORDERS), lake.sink.offsets(SECOND)) == (
        (list(range(5)), []) if first else (list(range(6)), list(range(4)))
    )


@pytest.mark.parametrize("is_hidden", ["from the job", "from Spark", "from both"])
@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_new_topic_that_is_hidden_while_its_start_is_looked_up_has_lost_nothing(
    lake: Archive, is_hidden: str, fails: str
) -> None:
    """The log of the topic does not begin at 0. Spark has planned a batch with it by the metadata of another broker."""
    lake.run()
    logs, new = {ORDERS: (0, 6)}, {OTHER: (4, 9)}
    plan(lake.checkpoint, 1, {ORDERS: 6, OTHER: 9})
    lake.seen = seen = ModelTopics()
    lake.topics.logs, lake.topics.hidden = (logs | new, {}) if is_hidden == "from the job" else (logs, new)
    seen.logs, seen.hidden = (logs | new, {}) if is_hidden == "from Spark" else (logs, new)
    job, write = lake.job(failOnDataLoss=fails), lake.sink.write

    def written(*arguments: Any) -> int:
        lake.topics.logs = seen.logs = logs | new
        return write(*arguments)

    vars(lake.sink)["write"] = written
    job.run()
    assert (lake.sink.offsets(ORDERS), lake.sink.offsets(OTHER)) == (list(range(6)), list(range(4, 9)))
    assert job.skipped == []


@pytest.mark.parametrize("hidden", [1, HIDDEN_MAX, HIDDEN_MAX + 1])
def test_a_partition_that_is_hidden_from_batch_after_batch_is_lost(lake: Archive, hidden: int) -> None:
    """The jobs see it in the metadata of other brokers."""
    lake.topics.logs = {ORDERS: (0, 5), SECOND: (0, 3)}
    lake.run()
    lake.topics.logs = {ORDERS: (0, 6)}
    job, looks = lake.job(), list[int]()

    def facts(*arguments: Any) -> Any:
        return ModelTopics(orders0=(0, 6), orders1=(0, 4)).facts(*arguments)

    def ends(*_: Any) -> LogEnds:
        looks.append(1)
        logs = {ORDERS: (0, 6), SECOND: (0, 4)}
        if len(looks) > 2 * hidden:  # each loss has one look for its sentence, and one for its mending
            lake.topics.logs = logs
        return LogEnds({key: first for key, (first, _) in logs.items()}, {key: end for key, (_, end) in logs.items()})

    vars(job)["_cluster"] = SimpleNamespace(facts=facts, ends=ends)
    if hidden > HIDDEN_MAX:
        with pytest.raises(RecordsLost, match="Partitions .* have been deleted"):
            job.run()
    else:
        job.run()
        assert lake.sink.offsets(SECOND) == [0, 1, 2, 3]


@pytest.mark.parametrize("hidden", [SECOND, OTHER])
def test_a_run_that_may_skip_ends_though_a_partition_stays_hidden(lake: Archive, hidden: TopicPartition) -> None:
    """The jobs see it in the metadata of other brokers, and each of their batches lacks it."""
    lake.topics.logs = {ORDERS: (0, 5), hidden: (0, 3)}
    lake.run()
    lake.topics.logs = {ORDERS: (0, 6)}
    job = lake.job(failOnDataLoss="false")
    vars(job)["_cluster"] = ModelTopics(**{"orders0": (0, 6), f"{hidden.topic}{hidden.partition}": (0, 4)})
    text = f"{hidden} is read up to offset 3 of 4. Start the job again"
    with pytest.raises(PipelineError, match=text):
        job.run()
    assert len(lake.sink.batches) == 1 + IDLE_RUNS_MAX + 1


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


def test_the_model_finds_partitions_that_begin_at_0_again(lake: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelSink, "archived", lambda _: {})
    for logs in ({ORDERS: (0, 5), SECOND: (0, 3)}, {ORDERS: (0, 6)}, {ORDERS: (0, 7), SECOND: (0, 4)}):
        lake.topics.logs = logs
        lake.run(failOnDataLoss="false")
    assert lake.sink.offsets(SECOND) == [0, 1, 2, 0, 1, 2, 3]
