"""The command `pykbroker pipeline demo`."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykbroker.cli.pipeline.options import CONNECTORS, JobOptions, job_command

if TYPE_CHECKING:
    from pykbroker.pipeline.report import JobReport, Say
    from pykbroker.pipeline.session import PipelineSession

RECORDS = 100_000
RECORDS_MAX = 10_000_000


@job_command(has_connector=False)
@click.option("--directory", default="", metavar="DIR", help="Where to keep the results. [default: a new one]")
@click.option("--records", type=click.IntRange(1, RECORDS_MAX), default=RECORDS, show_default=True)
@click.option(
    "--connector",
    type=click.Choice(CONNECTORS),
    default="python",
    show_default=True,
    help="The data source of pykbroker, which needs no jar, or Spark's own Kafka connector.",
)
def demo(options: JobOptions, directory: str, records: int) -> None:
    """Show the pipeline within a minute: a broker in memory, records, an archive, its proof and its audit.

    Each step is printed with the command that does the same. The archive and the page of the audit are kept.
    """
    begun = time.monotonic()
    place = Path(directory or tempfile.mkdtemp(prefix="pykbroker-demo-")).absolute()
    if place.exists() and any(place.iterdir()):
        raise click.BadParameter(f"{place} has files: choose an empty directory", param_hint="--directory")

    def told(line: str) -> None:
        click.echo(f"{time.monotonic() - begun:5.1f} s  {line}", err=True)

    told(f"Starting Spark ({options.master}).")
    options.run(lambda session, _: Demonstration(session, place, records, begun, told).run())


class Demonstration:
    """A run of the command. `begun` is the monotonic time of its start, in seconds."""

    def __init__(self, session: PipelineSession, place: Path, records: int, begun: float, say: Say) -> None:
        self._session, self._records, self._begun, self._say = session, records, begun, say
        self._lake, self._state, self._page = (str(place / name) for name in ("lake", "customers", "audit.html"))
        place.mkdir(parents=True, exist_ok=True)

    def run(self) -> JobReport:
        """Run all steps. The report has the losses of all jobs."""
        from pykbroker.cli.start.memory_broker import memory_broker
        from pykbroker.core.new_topic import NewTopic
        from pykbroker.pipeline.demo_orders import PARTITIONS, TOPIC
        from pykbroker.pipeline.report import JobReport

        self._say("Starting a broker that keeps its data in memory, in this process.")
        with memory_broker([NewTopic(TOPIC, PARTITIONS)]) as bootstrap:
            self._produce(bootstrap, TOPIC)
            reports, first_row_s = self._jobs(bootstrap, TOPIC)
        seconds = time.monotonic() - self._begun
        self._say(f"The page with the plots: {Path(self._page).as_uri()}")
        figures = {
            "records": reports[0].figures["records"],
            "customers": reports[-1].figures["keys"],
            "archive": self._lake,
            "page": self._page,
            "seconds_to_first_row": round(first_row_s, 1),
        }
        return JobReport("demo", figures, [loss for report in reports for loss in report.losses], seconds)

    def _produce(self, bootstrap: str, topic: str) -> None:
        from pykbroker.pipeline.demo_orders import PARTITIONS, produce_orders

        self._say(f"The broker listens on {bootstrap}. A producer sends {self._records:,} orders of customers.")
        produce_orders(bootstrap, self._records, time.time_ns() // 1_000_000)
        self._say(f"The orders are in {PARTITIONS} partitions of the topic {topic}. Some transactions were aborted.")

    def _jobs(self, bootstrap: str, topic: str) -> tuple[list[JobReport], float]:
        """Return the reports of all jobs, and the seconds from the start to the first archived row."""
        from pykbroker.pipeline.jobs.archive import ArchiveSettings, archive
        from pykbroker.pipeline.jobs.audit import AuditSettings, audit
        from pykbroker.pipeline.jobs.compact import CompactSettings, compact
        from pykbroker.pipeline.jobs.verify import VerifySettings, verify
        from pykbroker.pipeline.reading import TopicsToRead

        source, session, lake = TopicsToRead(bootstrap, (topic,)), self._session, self._lake
        given = f"--bootstrap {bootstrap} --topics {topic}"
        self._step("The topic is written to Parquet files, each record once", f"archive {given} --to {lake}")
        reports = [archive(session, ArchiveSettings(source, lake), _silent)]
        first_row_s = time.monotonic() - self._begun
        self._say(f"{reports[0].figures['records']:,} records are archived. The first one: {first_row(lake)}")
        self._step("The archive is compared with the topic, record by record", f"verify {given} --from {lake}")
        reports.append(verify(session, VerifySettings(source, lake), _silent))
        self._say(proof(reports[-1]))
        page = self._page
        self._step("The topic and its archive are measured", f"audit {given} --from {lake} --html {page}")
        reports.append(audit(session, AuditSettings(source, lake, topics=(topic,), page=page), _silent))
        self._step("The latest order of each customer is kept", f"compact --from {lake} --to {self._state}")
        reports.append(compact(session, CompactSettings(lake, self._state), _silent))
        self._say(f"{reports[-1].figures['keys']:,} customers have a latest order.")
        return reports, first_row_s

    def _step(self, sentence: str, command: str) -> None:
        self._say(f"{sentence}:")
        self._say(f"  pykbroker pipeline {command}")


def proof(report: JobReport) -> str:
    """Return the result of a comparison as a sentence."""
    if report.losses:
        return f"The archive differs from the topic: {report.losses[0]}."
    return f"The archive has all {report.figures['records']:,} records, each once and unchanged."


def first_row(directory: str) -> str:
    """Return the first row of an archive as pyarrow reads it from the bare directory."""
    import pyarrow.dataset

    columns = ["topic", "partition", "offset", "key", "value"]
    (row,) = pyarrow.dataset.dataset(directory, partitioning="hive").head(1, columns=columns).to_pylist()
    value = "no value" if row["value"] is None else row["value"].decode()
    return f"{row['topic']}-{row['partition']} at offset {row['offset']}: {row['key'].decode()} {value}"


def _silent(_: str) -> None:
    """Print nothing: the steps of a demonstration have sentences of their own."""
