"""The group `pykbroker pipeline`, whose commands run jobs on Spark."""

from __future__ import annotations

import click

from pykbroker.cli.lazy_group import LazyGroup

NAMES = ("demo", "archive", "verify", "audit", "compact", "replay", "decode")
JOBS = {name: f"pykbroker.cli.pipeline.{name}" for name in NAMES}
"""The module of each job."""


@click.group(cls=LazyGroup, modules=JOBS)
def pipeline() -> None:
    """Run jobs on Spark between topics and a lake: archive, verify, replay and more.

    They need the extra `spark` and Java 17. A command ends with exit code 3 if records are missing or double.
    """
