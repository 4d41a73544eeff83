"""The checks of Spark's checkpoint, and the starts of new topics in it, with files as Spark writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from pykbroker.core.topic_partition import TopicPartition
from pykbroker.pipeline import local_files
from pykbroker.pipeline.errors import StateConflict
from pykbroker.pipeline.source.stream_offsets import StreamPosition, advanced, begin_of, position_of
from pykbroker.pipeline.spark_checkpoint import BegunPartitions, begin_partitions, mend, require_whole
from pykbroker.pipeline.spark_offsets import left_batch, missing_ends, planned_ends, reached
from pykbroker.pipeline.storage import LocalStorage

OFFSETS = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1795881600000,"conf":{}}\n{"orders":{"0":%d}}'
COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'
METADATA = '{"id":"2d3e0c1a-6a3a-4f0e-9f3e-0c8d6a6a2f11"}'
FIRST_OFFSETS = '\0v1\n{"orders":{"0":0}}'
ORDERS, SECOND, USERS = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("users", 1)
NOTHING = BegunPartitions({}, {})


class SparkFiles:
    """A checkpoint in which batches 0 to `planned` are planned, and those before `done` are written."""

    def __init__(self, directory: Path, planned: int, done: int) -> None:
        self.storage = LocalStorage(directory)
        self.path = directory / "spark"
        self.put("metadata", METADATA)
        self.put("sources/0/0", FIRST_OFFSETS)
        for batch in range(planned):
            self.put(f"offsets/{batch}", OFFSETS % (100 * (batch + 1)))
        for batch in range(done):
            self.put(f"commits/{batch}", COMMIT)

    def put(self, name: str, text: str) -> None:
        path = self.path / name
        self.storage.write(f"spark/{name}", text.encode())
        path.with_name(f".{path.name}.crc").write_bytes(b"crc\0")


def begin(
    files: SparkFiles, starts: Mapping[TopicPartition, int], archived: Mapping[TopicPartition, int] = {}
) -> BegunPartitions:
    return begin_partitions(files.storage, starts, lambda: archived)


def refusal(files: SparkFiles, connector: str = "jvm") -> str:
    with pytest.raises(StateConflict) as caught:
        require_whole(files.storage, connector)
    return str(caught.value)


@pytest.mark.parametrize(("planned", "done"), [(0, 0), (1, 0), (1, 1), (3, 2), (3, 3), (3, 0)])
def test_a_whole_checkpoint_is_accepted(tmp_path: Path, planned: int, done: int) -> None:
    require_whole(SparkFiles(tmp_path, planned, done).storage, "jvm")


def test_a_directory_without_batches_is_accepted(tmp_path: Path) -> None:
    require_whole(LocalStorage(tmp_path), "jvm")
    (tmp_path / "spark/offsets").mkdir(parents=True)
    require_whole(LocalStorage(tmp_path), "jvm")


@pytest.mark.parametrize("size", ["empty", "cut", "missing"])
@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("metadata", 'delete it, and write {"id":"'),
        ("offsets/1", "restore the checkpoint and the archive from backups"),
        ("offsets/2", "delete it, and the next run plans the batch again"),
        ("commits/1", "restore the checkpoint and the archive from backups"),
    ],
)
def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path, name: str, advice: str, size: str) -> None:
    files = SparkFiles(tmp_path, 3, 2)
    whole = (files.path / name).read_bytes()
    if size == "missing":
        (files.path / name).unlink()
        if name in ("offsets/2", "commits/1"):  # a batch that is not planned, or is repeated
            require_whole(files.storage, "jvm")
            return
    else:
        (files.path / name).write_bytes(b"" if size == "empty" else whole[:-1])
    found = refusal(files)
    assert f"{files.path}/{name} is {size}" in found
    assert advice in found


def test_every_cut_of_a_file_is_found(tmp_path: Path) -> None:
    files = SparkFiles(tmp_path, 3, 2)
    for name in ("metadata", "offsets/1", "offsets/2", "commits/1", "sources/0/0"):
        whole = (files.path / name).read_bytes()
        for length in range(len(whole)):
            (files.path / name).write_bytes(whole[:length])
            assert f"{files.path}/{name} is " in refusal(files)
        (files.path / name).write_bytes(whole)
    require_whole(files.storage, "jvm")


def test_the_offsets_of_a_batch_that_is_done_are_missed(tmp_path: Path) -> None:
    files = SparkFiles(tmp_path, 3, 3)
    (files.path / "offsets/2").unlink()
    assert f"{files.path}/offsets/2 is missing" in refusal(files)


def test_the_first_offsets_are_missed_while_the_first_batch_is_not_done(tmp_path: Path) -> None:
    files = SparkFiles(tmp_path, 1, 0)
    (files.path / "sources/0/0").unlink()
    assert "sources/0/0 is missing. What to do: delete spark/sources/0/0 and spark/offsets/0" in refusal(files)
    require_whole(files.storage, "python")
    files.put("commits/0", COMMIT)
    require_whole(files.storage, "jvm")


def test_a_first_plan_that_is_mended_starts_where_it_ends(tmp_path: Path) -> None:
    """A stream that starts now would find a partition that is new since the first batch, and take it for a lost one."""
    files = SparkFiles(tmp_path, 1, 0)
    files.put("offsets/0", "")
    assert mend(files.storage, "python", lambda _: {"orders": {"0": 100}}, ["orders", "users"])
    require_whole(files.storage, "python")
    assert planned_ends(files.storage, 0) == {"orders": {"0": 100}}
    until = position_of(msgspec.json.decode((files.path / "offsets/0").read_bytes().splitlines()[2]))
    begins = begin_of(StreamPosition(None, {ORDERS: 0, USERS: 0}), until)
    assert begins == until.reached == {ORDERS: 100}
    assert advanced(until, {ORDERS: 120}).reached == {ORDERS: 120}


def test_the_first_offsets_are_deleted_once_the_first_batch_is_done(tmp_path: Path) -> None:
    files = SparkFiles(tmp_path, 1, 1)
    files.put("sources/0/0", "")
    assert "sources/0/0 is empty. What to do: delete it: the first batch alone needs it" in refusal(files)
    (files.path / "sources/0/0").unlink()
    require_whole(files.storage, "jvm")


def test_a_batch_is_durably_done_before_other_topics_begin_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, synced = SparkFiles(tmp_path, 2, 2), list[Path]()
    monkeypatch.setattr(local_files, "sync", synced.append)
    begin(files, {USERS: 40})
    assert synced.index(files.path / "commits/1") < synced.index(files.path / "offsets")


def test_metadata_as_the_error_says_is_accepted(tmp_path: Path) -> None:
    files = SparkFiles(tmp_path, 1, 1)
    files.put("metadata", '{"name":"x"}')
    found = refusal(files)
    assert "is damaged: it has no id" in found
    advice = re.search(r'\{"id":"[0-9a-f-]{36}"\}', found)
    assert advice is not None
    files.put("metadata", advice[0])
    require_whole(files.storage, "jvm")


def test_a_batch_without_a_commit_is_left(tmp_path: Path) -> None:
    assert left_batch(LocalStorage(tmp_path / "new")) is None
    assert left_batch(SparkFiles(tmp_path / "a", 1, 0).storage) == 0
    assert left_batch(SparkFiles(tmp_path / "b", 3, 2).storage) == 2
    assert left_batch(SparkFiles(tmp_path / "c", 3, 3).storage) is None


def test_ends_that_are_not_reached_are_named() -> None:
    wanted = {ORDERS: 5, USERS: 1}
    assert missing_ends({ORDERS: 4}, wanted) == [
        "orders-0 is read up to offset 4 of 5",
        "users-1 is read up to offset 0 of 1",
    ]
    assert missing_ends({ORDERS: 5, USERS: 2}, wanted) == []
    assert missing_ends({}, {ORDERS: 0}) == []


def test_a_new_topic_begins_at_its_start(tmp_path: Path) -> None:
    files = SparkFiles(tmp_path, 2, 2)
    before = (files.path / "offsets/1").read_text().splitlines()
    assert begin(files, {ORDERS: 7, SECOND: 9, USERS: 40}) == BegunPartitions({}, {USERS: 40})
    assert planned_ends(files.storage, 1) == {"orders": {"0": 200}, "users": {"1": 40}}
    assert (files.path / "offsets/1").read_text().splitlines()[:2] == before[:2]
    assert not (files.path / "offsets/.1.crc").exists()
    require_whole(files.storage, "jvm")


def test_a_topic_begins_before_a_left_batch_that_has_it_and_after_another(tmp_path: Path) -> None:
    files = SparkFiles(tmp_path, 3, 2)
    assert begin(files, {USERS: 40}) == NOTHING
    files.put("offsets/2", 'v1\n{}\n{"orders":{"0":300},"users":{"1":90}}')
    assert begin(files, {USERS: 40}) == BegunPartitions({}, {USERS: 40})
    assert planned_ends(files.storage, 1) == {"orders": {"0": 200}, "users": {"1": 40}}
    assert planned_ends(files.storage, 2) == {"orders": {"0": 300}, "users": {"1": 90}}


def test_a_partition_that_was_read_before_goes_on_unless_a_left_batch_lacks_it(tmp_path: Path) -> None:
    files, archived = SparkFiles(tmp_path, 3, 2), {ORDERS: 200, SECOND: 70, USERS: 0}
    starts = {ORDERS: 0, SECOND: 5, TopicPartition("orders", 2): 6, USERS: 8}
    assert begin(files, starts, archived) == NOTHING
    files.put("commits/2", COMMIT)
    assert begin(files, starts, archived) == BegunPartitions({SECOND: 70}, {})
    assert planned_ends(files.storage, 2) == {"orders": {"0": 300, "1": 70}}
    assert begin(files, starts, archived) == NOTHING


def test_a_query_that_may_skip_knows_the_begins_of_all_partitions(tmp_path: Path) -> None:
    files, third = SparkFiles(tmp_path, 2, 2), TopicPartition("orders", 2)
    starts = {ORDERS: 0, SECOND: 9, third: 8, USERS: 40}
    found = begin_partitions(files.storage, starts, lambda: {third: 6}, may_skip=True)
    assert found == BegunPartitions({third: 6}, {SECOND: 0, USERS: 40})
    files = SparkFiles(tmp_path / "left", 2, 1)
    files.put("offsets/1", 'v1\n{}\n{"orders":{"0":300,"1":5},"users":{"1":90}}')
    found = begin_partitions(files.storage, {third: 8}, dict, may_skip=True)  # the others are hidden
    assert found == BegunPartitions({}, {SECOND: 0, USERS: 0})


def test_the_start_of_a_topic_is_noted_once(tmp_path: Path) -> None:
    files = SparkFiles(tmp_path, 2, 2)
    begin(files, {USERS: 40})
    assert begin(files, {USERS: 50, ORDERS: 0}) == NOTHING
    assert reached(files.storage) == {ORDERS: 200, USERS: 40}


def test_no_topic_is_new_before_a_batch_is_done(tmp_path: Path) -> None:
    files = SparkFiles(tmp_path, 1, 0)
    assert begin(files, {USERS: 40}) == NOTHING
    assert planned_ends(files.storage, 0) == {"orders": {"0": 100}}


@pytest.mark.parametrize(
    ("position", "after"),
    [
        ('{"@start":{"orders":{"0":5}}}', {"@start": {"orders": {"0": 5}, "users": {"1": 40}}}),
        (
            '{"@start":{"orders":{"0":5}},"orders":{"0":9}}',
            {"@start": {"orders": {"0": 5}}, "orders": {"0": 9}, "users": {"1": 40}},
        ),
    ],
)
def test_a_new_topic_joins_the_position_of_the_format_pykbroker(tmp_path: Path, position: str, after: object) -> None:
    files = SparkFiles(tmp_path, 1, 1)
    files.put("offsets/0", f"v1\n{{}}\n{position}")
    begin(files, {USERS: 40})
    assert msgspec.json.decode((files.path / "offsets/0").read_text().splitlines()[2]) == after
    assert reached(files.storage)[USERS] == 40
