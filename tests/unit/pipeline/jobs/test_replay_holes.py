"""The job `replay` over an archive with a hole, without Spark and brokers: each record is written in the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.cluster import ClusterFacts
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.jobs import archived as reading
from pykbroker.pipeline.jobs import replay as replaying
from pykbroker.pipeline.jobs.commits import ArchivedRange
from pykbroker.pipeline.jobs.replay import ReplaySettings, replay
from pykbroker.pipeline.session import PipelineSession
from pykbroker.pipeline.storage import LocalStorage
from pykbroker.pipeline.writing.position import SourcePosition
from tests.unit.pipeline.jobs import lake
from tests.unit.pipeline.jobs.lake import EVERYTHING, TOPIC, archive, checksum, offsets_in

ORDERS, COPY = TopicPartition(TOPIC, 0), "copy"
Bug = Callable[[pytest.MonkeyPatch], None]


class Replays:
    """Replays of an archive to a topic. The records of the archive are offsets, and so are those of the topic."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self.directory, self.written, self.position = directory, list[int](), SourcePosition()
        cluster = SimpleNamespace(
            facts=lambda _: ClusterFacts("c", {COPY: "id"}, {COPY: 1}), appends_own_time=lambda _: ()
        )
        patch.setattr(reading, "_read_files", lambda _, target, paths: self._read(target, paths))
        patch.setattr(reading, "with_times", lambda records: records)
        for module in (reading, replaying):
            patch.setattr(module, "storage_of", lambda _, place: LocalStorage(place))
        patches: dict[str, Callable[..., Any]] = {
            "PipelineCluster": lambda *_: cluster,
            "between": lambda records, *_: records,
            "limit_batches": lambda *_: None,
            "placed": lambda records, _: records,
            "ranges_by_partition": lambda records: {ORDERS: range_of(records)} if records else {},
            "read_positions": lambda *_: [self.position],
            "read_settled_positions": lambda *_: [self.position],
            "span_rows": lambda records, *_, **__: [span_row(records)] if records else [],
            "unwritten": lambda records, *_: [each for each in records if each >= self.position.offset],
            "write_records": self._write,
        }
        for name, function in patches.items():
            patch.setattr(replaying, name, function)

    def _read(self, target: LocalStorage, paths: Sequence[str]) -> list[int]:
        return sorted(offset for path in paths for offset in offsets_in(Path(target.directory, path)))

    def _write(self, records: Sequence[int], _: object) -> None:
        self.written += records
        self.position = SourcePosition(records[-1] + 1, self.position.records + len(records))

    def run(self) -> None:
        spark: Any = SimpleNamespace()
        spark.newSession = lambda: spark
        settings = ReplaySettings(str(self.directory), "b:9092", target=COPY)
        assert replay(PipelineSession(spark, "python", ""), settings, lambda _: None).losses == []


def range_of(records: Sequence[int]) -> ArchivedRange:
    return ArchivedRange(ORDERS.partition, records[0], records[-1], len(records), checksum(records), topic=ORDERS.topic)


def span_row(records: Sequence[int]) -> tuple[Any, ...]:
    """Return the range of all records, and what lies between bounds without limits."""
    first, last, count = records[0], records[-1], len(records)
    return (*ORDERS, first, last, count, checksum(records), first, last, count)


def has_every_record(directory: Path, patch: pytest.MonkeyPatch) -> bool:
    """Whether each record is written once by a replay with a file away, and another one when the file is back."""
    archive(directory)
    found = True
    for path in [each for each in directory.rglob("*.parquet") if "_pykbroker" not in each.parts]:
        replays, away = Replays(directory, patch), directory.with_name("away")
        path.rename(away)
        try:
            replays.run()
        except PipelineError:
            assert (replays.written, replays.position) == ([], SourcePosition())
        away.rename(path)
        replays.run()
        found = found and sorted(replays.written) == EVERYTHING
    return found


def passing_missing_files(patch: pytest.MonkeyPatch) -> None:
    """Take the files that are there for all of the archive."""
    patch.setattr(replaying, "require_settled", lambda *_: None)


def comparing_nothing(patch: pytest.MonkeyPatch) -> None:
    """Compare nothing with the commits."""
    patch.setattr(replaying, "require_claimed", lambda *_: None)


@pytest.mark.parametrize(
    ("bugs", "is_found"),
    [
        ((), False),
        ((passing_missing_files,), False),
        ((comparing_nothing,), False),
        ((passing_missing_files, comparing_nothing), True),
    ],
)
def test_a_position_past_a_hole_is_found_as_a_planted_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bugs: Sequence[Bug], is_found: bool
) -> None:
    """A missing file is named, and its records are missed: each of both alone keeps the position."""
    lake.in_small(monkeypatch)
    for bug in bugs:
        bug(monkeypatch)
    assert has_every_record(tmp_path / "lake", monkeypatch) is not is_found
