"""The errors of Spark jobs as sentences."""

from __future__ import annotations

from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.failures import explained

TRACEBACK = """Job aborted due to stage failure
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
{line}

\tat org.apache.spark.api.python.BasePythonRunner
"""


class PythonException(Exception):
    """An error with the name of that which Spark raises for a task in Python."""


def test_the_sentence_of_a_task_is_kept() -> None:
    text = TRACEBACK.format(line="pykbroker.pipeline.errors.StateConflict: the group g belongs to another: stop")
    assert str(explained(PythonException(text), "replay")) == "the group g belongs to another: stop"


def test_another_error_of_a_task_keeps_its_last_line() -> None:
    text = TRACEBACK.format(line="ValueError: no number")
    assert str(explained(PythonException(text), "replay")) == "replay stopped: ValueError: no number"


def test_an_error_of_spark_keeps_its_first_line() -> None:
    found = explained(RuntimeError("\n[PATH_NOT_FOUND] Path does not exist: /x\nmore"), "replay")
    assert str(found) == "replay stopped: [PATH_NOT_FOUND] Path does not exist: /x"
    assert str(explained(RuntimeError(""), "replay")) == "replay stopped: RuntimeError"


def test_an_error_for_the_user_stays_as_it_is() -> None:
    error = PipelineError("create the topic first")
    assert explained(error, "replay") is error
