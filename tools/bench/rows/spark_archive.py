"""The jobs of `pykbroker pipeline` on local[2], with Spark's own connector and its default options."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from pykbroker.pipeline.jobs.archive import ArchiveSettings, archive
from pykbroker.pipeline.jobs.verify import VerifySettings, verify
from pykbroker.pipeline.reading import TopicsToRead
from pykbroker.pipeline.session import PipelineSession
from tools.bench import volume
from tools.bench.row import Figure, Row, Stage, Topic
from tools.bench.rows.spark import session

RECORDS = 1_000_000
VALUE = bytes(100)


def progress(_: str) -> None:
    """Print nothing: a row has one line."""


def archive_and_verify(stage: Stage) -> Mapping[str, float] | None:
    """Return the rates of both jobs in k records/s, after a first archive of the same topic."""
    if not stage.peer.spark:
        return None
    jobs = PipelineSession(session(), "jvm", "")
    directory = Path(tempfile.mkdtemp(dir=stage.scratch))
    try:
        with Topic(stage.broker) as topic:
            volume.produce(stage.broker, topic, RECORDS, VALUE, spread=True)
            source = TopicsToRead(stage.broker.bootstrap, (topic.name,))
            for name in ("first", "second"):
                begun = time.perf_counter()
                report = archive(jobs, ArchiveSettings(source, str(directory / name)), progress)
                archive_s = time.perf_counter() - begun
            begun = time.perf_counter()
            proof = verify(jobs, VerifySettings(source, str(directory / "second")), progress)
            verify_s = time.perf_counter() - begun
    finally:
        shutil.rmtree(directory)
    if (report.figures["records"], proof.figures["records"], proof.losses) != (RECORDS, RECORDS, []):
        raise RuntimeError(f"archived {report.figures}, verified {proof.figures}: {proof.losses}")
    return {"archive": RECORDS / archive_s / 1000, "verify": RECORDS / verify_s / 1000}


ROWS = (
    Row(
        "Pipeline, archive and verify 1 M records of 100 B",
        {
            "archive": Figure("archive, k records/s", more_is_better=True, digits=0),
            "verify": Figure("verify, k records/s", more_is_better=True, digits=0),
        },
        archive_and_verify,
    ),
)
