"""A replay that is killed, with a JVM of its own, and started again in the session of the tests."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from pykbroker.pipeline.cluster import PipelineCluster
from tests.interop.one_process import run_here
from tests.interop.pipeline.archived_rows import archived, content, topic_content, write_archive
from tests.interop.pipeline.both_formats import BothFormats
from tests.interop.pipeline.job_process import JobProcess, with_jars_of
from tests.interop.pipeline.marks import spark_marks

PARTITIONS, RECORDS = 3, 4000

pytestmark = spark_marks(240)  # a JVM starts


def test_a_killed_replay_writes_each_record_once(formats: BothFormats, tmp_path: Path) -> None:
    """The kill comes after the first transactions. The content of the topic is then that of the archive."""
    rows = [row for partition in range(PARTITIONS) for row in archived("orders", partition, range(RECORDS))]
    write_archive(tmp_path / "archive", rows)
    copy, job = formats.topic(PARTITIONS), f"killed-{uuid.uuid4().hex[:8]}"
    options = ("--archive", str(tmp_path / "archive"), "--to", copy, "--job", job, "-b", formats.bootstrap)
    cluster = PipelineCluster(formats.bootstrap)
    process = JobProcess(tmp_path, "replay", *options, "--rate", "1500", *with_jars_of(formats.spark))
    try:
        process.wait_until(lambda: len(cluster.last_committed(job)) >= 2)
    finally:
        process.kill()
    written = len(topic_content(formats.bootstrap, copy))
    assert 0 < written < len(rows)
    continued = run_here("pipeline", "replay", "--json", *options)
    assert continued.exit_code == 0, continued.output
    report = json.loads(continued.stdout)
    assert topic_content(formats.bootstrap, copy) == content(rows)
    assert (report["losses"], report["written_before"], report["records"]) == ([], written, len(rows) - written)
