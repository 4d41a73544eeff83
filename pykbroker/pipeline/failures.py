"""The error of a Spark job as a sentence for its user."""

from __future__ import annotations

import re

from pykbroker.pipeline.errors import PipelineError

_PYTHON = re.compile(r"^(?:[A-Za-z_]\w*\.)*(?P<kind>[A-Z]\w*): (?P<text>.+)$", re.MULTILINE)
"""The last line of a traceback in a task, such as `pykbroker.pipeline.errors.PipelineError: a sentence`."""
OWN = ("PipelineError", "StateConflict")


def explained(error: Exception, job: str) -> PipelineError:
    """Return the error of a job's tasks. The sentence of a PipelineError in a task is kept as it is."""
    if isinstance(error, PipelineError):
        return error
    found = list(_PYTHON.finditer(str(error)))
    for match in found:
        if match["kind"] in OWN:
            return PipelineError(match["text"])
    if "PythonException" in type(error).__name__ and found:
        return PipelineError(f"{job} stopped: {found[-1][0]}")
    lines = [line for line in str(error).splitlines() if line.strip()]
    return PipelineError(f"{job} stopped: {lines[0] if lines else type(error).__name__}")
