"""The job `archive` without Spark and brokers: runs over a model of Spark's triggers, with a target in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.errors import StateConflict
from pykbroker.pipeline.jobs import archive as archive_job
from pykbroker.pipeline.jobs.archive import ArchiveJob, ArchiveSettings
from pykbroker.pipeline.reading import TopicsToRead
from pykbroker.pipeline.session import PipelineSession
from pykbroker.pipeline.spark_offsets import Ends, by_partition, left_batch, merged_ends
from pykbroker.pipeline.storage import LocalStorage, Storage
from tests.unit.pipeline.jobs.spark_model import Kind, ModelQuery, ModelTopics, Ranges

KINDS: list[Kind] = ["jvm", "python"]
CUTS = (b"", b"\0\0", b"v1\n{")
"""The contents of a file of Spark's checkpoint after a loss of power."""
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
    """An archive of the topics that a pattern selects. Each run has a job of its own.

    The job sees other metadata than Spark if `seen` has topics.
    """

    def __init__(self, checkpoint: Storage, kind: Kind) -> None:
        self.checkpoint, self.kind, self.pattern = checkpoint, kind, ".*"
        self.sink, self.topics, self.lines = ModelSink(), ModelTopics(orders0=(0, 5)), list[str]()
        self.seen: ModelTopics | None = None
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

        vars(job).update(_cluster=self.seen or self.topics, _start=start)
        return job

    def run(self, **options: str) -> None:
        self.job(**options).run()

    def kill_after_batch(self, **options: str) -> None:
        """Run, and end the process when the next batch is written, before Spark counts it as done."""
        write = self.sink.write

        def killed(*arguments: Any) -> int:
            write(*arguments)
            raise Killed

        vars(self.sink)["write"] = killed
        with pytest.raises(Killed):
            self.run(**options)
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


def new_archive(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """Return an archive without batches, whose checkpoint is not durable."""
    target, checkpoint = LocalStorage(tmp_path / "lake"), LocalStorage(tmp_path / "checkpoint")
    monkeypatch.setattr(archive_job, "places", lambda *_: (target, checkpoint))
    monkeypatch.setattr(archive_job, "with_date", lambda records: records)
    monkeypatch.setattr("os.fsync", lambda _: None)
    return Archive(checkpoint, kind)
