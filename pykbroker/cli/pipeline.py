"""The group `pykbroker pipeline`, whose commands run jobs on Spark."""

from __future__ import annotations

from importlib import import_module
from typing import cast

import click

NAMES = ("demo", "archive", "verify", "audit", "compact", "replay", "decode")
JOBS = {name: f"pykbroker.cli.pipeline_{name}" for name in NAMES}
"""The module of each job, which has its command under the job's name."""


class Jobs(click.Group):
    """A group whose commands are imported when they are needed."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all jobs."""
        return list(JOBS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return a command, or None for an unknown name."""
        if name not in JOBS:
            return None
        return cast("click.Command", getattr(import_module(JOBS[name]), name))


@click.group(cls=Jobs)
def pipeline() -> None:
    """Run jobs on Spark between topics and a lake: archive, verify, replay and more.

    They need the extra `spark` and Java 17. A command ends with exit code 3 if records are missing or double.
    """
