"""The report of a job: what it has done, as text or as one JSON object, and the exit code of its command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

import msgspec

Say = Callable[[str], None]
"""A function that is called with each line of progress."""


class ExitCode(IntEnum):
    """The exit codes of the pipeline's commands. Code 2, a wrong use, is click's."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    LOSS = 3


class JobReport(msgspec.Struct):
    """The report of a job. `figures` are counts and names, and `losses` sentences about missing or double records.

    `is_interrupted` is true if a signal has ended a job that would have ended by itself.
    """

    job: str
    figures: dict[str, Any] = {}
    losses: list[str] = []
    seconds: float = 0.0
    is_interrupted: bool = False

    @property
    def exit_code(self) -> ExitCode:
        """Return LOSS if records are missing or double, and DONE otherwise."""
        return ExitCode.LOSS if self.losses else ExitCode.DONE

    def json(self) -> str:
        """Return the report as one line of JSON."""
        found = {
            "job": self.job,
            **self.figures,
            "losses": self.losses,
            "is_interrupted": self.is_interrupted,
            "seconds": round(self.seconds, 3),
        }
        return msgspec.json.encode(found).decode()

    def text(self) -> str:
        """Return the report for a person, a line for each figure."""
        end = "LOSS" if self.losses else "interrupted" if self.is_interrupted else "done"
        lines = [f"{self.job}: {end} in {self.seconds:.1f} s"]
        lines += [f"  {name.replace('_', ' ')}: {_shown(value)}" for name, value in self.figures.items()]
        return "\n".join([*lines, *(f"  lost: {each}" for each in self.losses)])


class FailedReport(msgspec.Struct, frozen=True):
    """The report of a job that has stopped without one of its own."""

    job: str
    error: str
    exit_code: int
    is_interrupted: bool = False
    losses: list[str] = []

    def json(self) -> str:
        """Return the report as one line of JSON."""
        return msgspec.json.encode(self).decode()


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value)) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)
