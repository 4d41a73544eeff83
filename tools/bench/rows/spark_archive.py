"""The jobs of `pykbroker pipeline` on local[2], with Spark's own connector and its default options."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pykbroker.pipeline.decoding.plan import DecodePlan
from pykbroker.pipeline.jobs.archive import ArchiveSettings, archive
from pykbroker.pipeline.jobs.audit import AuditSettings, audit
from pykbroker.pipeline.jobs.decode import DecodeSettings, decode
from pykbroker.pipeline.jobs.verify import VerifySettings, verify
from pykbroker.pipeline.reading import TopicsToRead
from pykbroker.pipeline.session import PipelineSession
from tools.bench import volume
from tools.bench.row import Figure, Row, Stage, Topic
from tools.bench.rows.spark import session

RECORDS = 1_000_000
VALUE = bytes(100)
ORDER = json.dumps({"id": 1234567, "customer": "c" * 39, "amount": 12.5, "paid": True}).ljust(100).encode()
"""A JSON record of 100 B."""
ORDERS = DecodePlan(
    "json",
    json.dumps(
        {
            "type": "record",
            "name": "order",
            "fields": [
                {"name": "id", "type": "long"},
                {"name": "customer", "type": "string"},
                {"name": "amount", "type": "double"},
                {"name": "paid", "type": "boolean"},
            ],
        }
    ),
)


def progress(_: str) -> None:
    """Print nothing: a row has one line."""


@contextmanager
def filled(stage: Stage, value: bytes) -> Iterator[tuple[PipelineSession, TopicsToRead, Path]]:
    """Yield a session, a topic with `RECORDS` records of this value, and an empty directory for what jobs write."""
    directory = Path(tempfile.mkdtemp(dir=stage.scratch))
    try:
        with Topic(stage.broker) as topic:
            volume.produce(stage.broker, topic, RECORDS, value, spread=True)
            yield PipelineSession(session(), "jvm", ""), TopicsToRead(stage.broker.bootstrap, (topic.name,)), directory
    finally:
        shutil.rmtree(directory)


def jobs(stage: Stage) -> Mapping[str, float] | None:
    """Return the rates of the jobs that read records as they are, in k records/s, each in its second run on the same
    topic.
    """
    if not stage.peer.spark:
        return None
    with filled(stage, VALUE) as (pipeline, source, directory):
        for name in ("first", "second"):
            place = str(directory / name)
            reports = {
                "archive": archive(pipeline, ArchiveSettings(source, place), progress),
                "verify": verify(pipeline, VerifySettings(source, place), progress),
                "audit": audit(pipeline, AuditSettings(source, place), progress),
            }
    if (reports["archive"].figures["records"], reports["verify"].figures["records"]) != (RECORDS, RECORDS):
        raise RuntimeError(f"archived {reports['archive'].figures}, verified {reports['verify'].figures}")
    if found := [loss for report in reports.values() for loss in report.losses]:
        raise RuntimeError(found[0])
    return {name: RECORDS / report.seconds / 1000 for name, report in reports.items()}


def decoded(stage: Stage) -> Mapping[str, float] | None:
    """Return the rate of the job decode in k records/s, in its second run on the same topic of JSON records."""
    if not stage.peer.spark:
        return None
    with filled(stage, ORDER) as (pipeline, source, directory):
        for name in ("first", "second"):
            report = decode(pipeline, DecodeSettings(source, str(directory / name), ORDERS), progress)
    if report.figures["good"] != RECORDS:
        raise RuntimeError(f"decoded {report.figures}")
    return {"decode": RECORDS / report.seconds / 1000}


ROWS = (
    Row(
        "Pipeline, jobs on 1 M records of 100 B",
        {
            "archive": Figure("archive, k records/s", more_is_better=True, digits=0),
            "verify": Figure("verify, k records/s", more_is_better=True, digits=0),
            "audit": Figure("audit of topic and archive, k records/s", more_is_better=True, digits=0),
        },
        jobs,
        warms_up=True,
    ),
    Row(
        "Pipeline, decode of 1 M JSON records of 100 B",
        {"decode": Figure("decode, k records/s", more_is_better=True, digits=0)},
        decoded,
        warms_up=True,
    ),
)
