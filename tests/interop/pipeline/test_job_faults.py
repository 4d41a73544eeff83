"""Jobs that are killed at random moments, and jobs whose broker is away for a minute, on this broker and on Kafka.

They run only with PYKBROKER_TEST_SOAK_S=120, which kills each job for 120 s.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pykbroker.pipeline.cluster import PipelineCluster
from tests.interop.pipeline.archived_rows import archived, content, topic_content, write_archive
from tests.interop.pipeline.both_formats import BothFormats
from tests.interop.pipeline.faulty_jobs import (
    FINISH_S_MAX,
    PARTITIONS,
    GrowingTopic,
    Job,
    Node,
    Runs,
    archive_of_files,
    archive_of_table,
    decoded_topic,
    state_of,
    with_key,
)
from tests.interop.pipeline.job_process import JobProcess
from tests.interop.soak import SOAK_S, soak
from tools.bench.peers import PEERS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)
pytestmark = [
    soak,
    pytest.mark.timeout(1200 + 3 * SOAK_S, func_only=True),  # each run starts a JVM
    pytest.mark.filterwarnings("ignore"),  # the Java version and jars of pyspark
]
RECORDS = 4_000
"""The records that each run of a job finds."""
COMPARED = 200_000
"""The records of a topic that is compared, which takes seconds."""
AWAY_S = 60


@pytest.fixture(scope="module", params=["pykbroker", "kafka"])
def node(request: pytest.FixtureRequest, kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Yield a broker of each kind."""
    running = Node(PEERS[request.param].start(tmp_path_factory.mktemp(request.param)))
    yield running
    running.kill()


@pytest.fixture
def topic(spark: SparkSession, node: Node) -> GrowingTopic:
    return GrowingTopic(BothFormats(spark, node.bootstrap))


@pytest.fixture
def runs(spark: SparkSession, tmp_path: Path) -> Runs:
    return Runs(spark, tmp_path)


MakeJob = Callable[[GrowingTopic, Path], Job]


# ---- kills


@pytest.mark.parametrize("make", [archive_of_files, archive_of_table, decoded_topic])
def test_a_job_that_is_killed_again_and_again_writes_each_record_once(
    make: MakeJob, topic: GrowingTopic, runs: Runs, tmp_path: Path
) -> None:
    job, until, seen = make(topic, tmp_path), time.monotonic() + SOAK_S, list[int]()
    while time.monotonic() < until:
        topic.grow(RECORDS)
        runs.kill_one(job.name, *job.options)
        found = job.found()
        assert found <= topic.records, (found - topic.records).most_common(3)
        seen.append(found.total())
    runs.finish(job.name, *job.options)
    found = job.found()
    lost, doubled = topic.records - found, found - topic.records
    figures = f"{found.total()} records, {lost.total()} lost, {doubled.total()} double"
    logger.info(
        "%s: %d kills with %s records written, ended %s, %s", job.name, runs.kills, seen, runs.exit_codes, figures
    )
    assert (lost.most_common(3), doubled.most_common(3)) == ([], [])


def test_a_compact_that_is_killed_again_and_again_leaves_the_old_state_or_the_new_one(
    runs: Runs, tmp_path: Path
) -> None:
    source, target, until = tmp_path / "lake", tmp_path / "state", time.monotonic() + SOAK_S
    options = ("--from", str(source), "--to", str(target))
    end, seen, news = 0, dict[bytes, bytes](), 0
    latest: dict[bytes, bytes | None] = {}
    while time.monotonic() < until:
        rows = [with_key(row) for row in archived("orders", 0, range(end, end + RECORDS))]
        write_archive(source, rows)
        end += RECORDS
        latest = latest | {row[0]: row[1] for row in rows}
        runs.kill_one("compact", *options)
        kept = {key: value for key, value in latest.items() if value is not None}
        found = state_of(target)
        assert found in (seen, kept)
        news += found == kept
        seen = found
    runs.finish("compact", *options)
    logger.info(
        "compact: %d kills, ended %s, %d new states seen, %d keys", runs.kills, runs.exit_codes, news, len(kept)
    )
    assert state_of(target) == kept
    assert [path.name for path in target.iterdir() if path.suffix != ".parquet"] == ["_pykbroker"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("state")) == ["state"]


# ---- a broker that is away


def sit_out(node: Node, process: JobProcess, again: Callable[[], JobProcess]) -> tuple[list[int], str]:
    """Let the broker of a running job be away, and repeat the job if it has stopped; return exit codes and report."""
    codes: list[int] = []
    begun = time.monotonic()
    node.kill()
    try:
        ended = process.ended(AWAY_S)
        if ended is not None:
            logger.info("the job has ended after %.0f s without a broker", time.monotonic() - begun)
    finally:
        node.start()
    try:
        ended = ended or process.ended(FINISH_S_MAX)
        assert ended is not None, process.lines()
        codes.append(ended[0])
        if ended[0] == 1:
            logger.info("the job has stopped: %s", process.lines()[-1])
            process = again()
            ended = process.ended(FINISH_S_MAX)
            assert ended is not None, process.lines()
            codes.append(ended[0])
    finally:
        process.kill()
    logger.info("exit codes %s, %.0f s from the end of the broker on", codes, time.monotonic() - begun)
    assert codes[-1] == 0, process.lines()
    return codes, ended[1]


@pytest.mark.parametrize("make", [archive_of_files, archive_of_table, decoded_topic])
def test_a_job_without_a_broker_for_a_minute_writes_each_record_once(
    make: MakeJob, node: Node, topic: GrowingTopic, runs: Runs, tmp_path: Path
) -> None:
    topic.grow(RECORDS)
    job = make(topic, tmp_path)
    process = runs.start(job.name, *job.options)
    try:
        process.wait_until(lambda: any("batch 1:" in line for line in process.lines()), FINISH_S_MAX)
        codes, _ = sit_out(node, process, lambda: runs.start(job.name, *job.options))
    finally:
        process.kill()
    found = job.found()
    lost, doubled = topic.records - found, found - topic.records
    logger.info("%s: exit codes %s, %d lost, %d double", job.name, codes, lost.total(), doubled.total())
    assert (lost.most_common(3), doubled.most_common(3)) == ([], [])


def test_a_replay_without_a_broker_for_a_minute_writes_each_record_once(
    node: Node, topic: GrowingTopic, runs: Runs, tmp_path: Path
) -> None:
    rows = [row for partition in range(PARTITIONS) for row in archived("orders", partition, range(RECORDS // 2))]
    write_archive(tmp_path / "lake", rows)
    place = ("--archive", str(tmp_path / "lake"), "--to", topic.topic, "--bootstrap", node.bootstrap)
    options = (*place, "--job", topic.topic, "--rate", "500")
    process, cluster = runs.start("replay", *options), PipelineCluster(node.bootstrap)
    try:
        process.wait_until(lambda: len(cluster.last_committed(topic.topic)) >= PARTITIONS, FINISH_S_MAX)
        codes, report = sit_out(node, process, lambda: runs.start("replay", *options))
    finally:
        process.kill()
    assert topic_content(node.bootstrap, topic.topic) == content(rows)
    logger.info("replay: exit codes %s, %s", codes, json.loads(report))


@pytest.mark.parametrize(("job", "middle"), [("verify", "archived records in"), ("audit", "offsets in")])
def test_a_comparison_without_a_broker_for_a_minute_finds_no_loss(
    job: str, middle: str, node: Node, topic: GrowingTopic, runs: Runs, tmp_path: Path
) -> None:
    topic.grow(COMPARED)
    lake = archive_of_files(topic, tmp_path)
    runs.finish(lake.name, *lake.options, "--kafka", f"maxOffsetsPerTrigger={COMPARED}")
    options = ("--bootstrap", node.bootstrap, "--topics", topic.topic, "--from", str(tmp_path / "lake"))
    process = runs.start(job, *options)
    try:
        process.wait_until(lambda: any(middle in line for line in process.lines()), FINISH_S_MAX)
        codes, output = sit_out(node, process, lambda: runs.start(job, *options))
    finally:
        process.kill()
    logger.info("%s: exit codes %s", job, codes)
    assert json.loads(output)["losses"] == []


def test_a_compact_needs_no_broker(node: Node, topic: GrowingTopic, runs: Runs, tmp_path: Path) -> None:
    topic.grow(RECORDS)
    lake = archive_of_files(topic, tmp_path)
    runs.finish(lake.name, *lake.options)
    options = ("--from", str(tmp_path / "lake"), "--to", str(tmp_path / "state"), "--null-keys", "drop")
    process = runs.start("compact", *options)
    node.kill()
    try:
        ended = process.ended(FINISH_S_MAX)
        assert ended is not None
        assert ended[0] == 0, process.lines()
    finally:
        process.kill()
        node.start()
    assert len(state_of(tmp_path / "state")) == 7
