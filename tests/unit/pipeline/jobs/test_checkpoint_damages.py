"""Cut files of Spark's checkpoint between kills and runs in random order: each record is archived once."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline.spark_offsets import last_done, left_batch
from tests.unit.pipeline.jobs.archive_model import CUTS, KINDS, Archive, Killed, new_archive
from tests.unit.pipeline.jobs.spark_model import Kind

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


def run_or_kill(lake: Archive, random: Random) -> bool:
    """Run, or end the process within the next batch or behind it. Return whether the run has ended by itself.

    A partition may be hidden from the run, which may skip records then.
    """
    logs = lake.topics.logs
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
    has_ended = False
    with suppress(Killed):
        lake.run(failOnDataLoss="false" if hidden or random.random() < 0.1 else "true")
        has_ended = not hidden
    logs |= hidden
    lake.topics.hidden = {}
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
