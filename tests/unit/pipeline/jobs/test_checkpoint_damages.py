"""Cut files of Spark's checkpoint between kills and runs in random order: each record is archived once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.cluster import ClusterFacts
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.spark_offsets import last_done, left_batch
from tests.unit.pipeline.jobs.archive_model import CUTS, KINDS, Archive, Killed, new_archive
from tests.unit.pipeline.jobs.spark_model import Kind, ModelTopics

STEPS, CASES = 6, 15
NEW_TOPICS = (("users", 0), ("others", 4))
"""The names of topics that may be created, and the offsets at which their logs begin."""


def grow(logs: dict[TopicPartition, tuple[int, int]], random: Random) -> None:
    """Append records, and perhaps create a topic and a partition."""
    for key, (first, end) in logs.items():
        logs[key] = first, end + random.choice((0, 0, 1, 3))
    name, start = random.choice(NEW_TOPICS)
    if random.random() < 0.3:
        logs.setdefault(TopicPartition(name, 0), (start, start + random.randrange(4)))
    if random.random() < 0.2:
        orders = sum(key.topic == "orders" for key in logs)
        logs[TopicPartition("orders", orders)] = 0, random.randrange(3)


class OldMetadata(ModelTopics):
    """Topics of brokers of which some have old metadata. Each look is at another broker."""

    def __init__(self, logs: Mapping[TopicPartition, tuple[int, int]], random: Random, share: float) -> None:
        super().__init__()
        self.has_hidden = False
        self._all, self._random, self._share = logs, random, share

    def facts(self, *arguments: Any) -> ClusterFacts:
        self.logs = dict(self._all)
        self.hidden = {key: self.logs.pop(key) for key in sorted(self._all)[1:] if self._random.random() < self._share}
        self.has_hidden |= bool(self.hidden)
        return super().facts(*arguments)


def run_or_kill(lake: Archive, random: Random) -> bool:
    """Run, or end the process within the next batch or behind it. Return whether the run has ended with all records.

    Partitions may be hidden from the job, and others from Spark, which may skip records then.
    """
    logs = lake.topics.logs
    lake.seen = seen = OldMetadata(dict(logs), random, random.choice((0, 0.2)))
    lake.topics.hidden = hidden = {key: logs.pop(key) for key in sorted(logs)[1:] if random.random() < 0.2}
    match random.choice(("whole", "in batch", "behind batch")):
        case "in batch":
            lake.sink.fails = Killed()
        case "behind batch":
            write = lake.sink.write

            def killed(*arguments: object) -> int:
                write(*arguments)  # type: ignore[arg-type]
                raise Killed

            vars(lake.sink)["write"] = killed
    has_ended, job = False, lake.job(failOnDataLoss="false" if hidden or random.random() < 0.1 else "true")
    try:
        job.run()
        has_ended = not hidden and not seen.has_hidden
    except Killed:
        pass
    except PipelineError as error:
        assert hidden
        assert "Spark has stopped before the ends" in str(error)
    assert job.skipped == []
    logs |= hidden
    lake.topics.hidden, lake.seen = {}, None
    lake.sink.fails = None
    vars(lake.sink).pop("write", None)
    return has_ended


def damage(lake: Archive, random: Random) -> int:
    """Cut some of the files from which Spark goes on and whose batches the target has. Return their number."""
    left, done = left_batch(lake.checkpoint), last_done(lake.checkpoint)
    last = done if left is None else left
    names = [] if last is None else [f"offsets/{batch}" for batch in (last - 1, last) if batch in lake.sink.batches]
    names += [] if done is None else [f"commits/{done}"]
    cut = [name for name in names if random.random() < 0.4]
    for name in cut:
        lake.damage(name, random.choice(CUTS))
    return len(cut)


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_checkpoint_neither_loses_nor_doubles_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    damages = mended = 0
    for case in range(CASES):
        random, lake = Random(case), new_archive(kind, tmp_path / str(case), monkeypatch)
        logs = lake.topics.logs
        for _ in range(STEPS):
            grow(logs, random)
            has_ended = run_or_kill(lake, random)
            for key, (first, end) in logs.items():
                found = lake.sink.offsets(key)
                assert found == list(range(first, end if has_ended else first + len(found))), (case, key)
            damages += damage(lake, random)
        lake.run()
        mended += sum("is written again from the commits of the target" in line for line in lake.lines)
    assert mended == damages > CASES
