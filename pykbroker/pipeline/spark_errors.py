"""The errors of Spark as sentences: the cause of a failed query or task, without its stack trace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import TimeoutExpired
from urllib.parse import unquote

from pykbroker.pipeline.errors import PipelineError

CAUSED = "Caused by: "
TRACEBACK = "Traceback (most recent call last)"
LOST_TASK = re.compile(r"most recent failure: Lost task [^\n]*?\): (?P<cause>[^\n]+)")
PACKAGE = re.compile(r"^(?:[a-z_0-9]+\.)+(?=[A-Z])")
"""The package of the class with which the text of an exception begins."""
LOST = re.compile(
    r"failOnDataLoss|data may have been lost|KAFKA_DATA_LOSS|partitions? (?:was|were|are) gone", re.IGNORECASE
)
REASON = re.compile(r"data may have been lost.*?Reason: (?P<reason>[^\n]+?)\.?(?: SQLSTATE[^\n]*)?(?:\n|$)", re.DOTALL)
"""The reason in a message about lost records, which is the same in both connectors."""
JAVA_ERROR = re.compile(
    r"^(?:py4j\.protocol\.Py4JJavaError: )?An error occurred while calling [^\n]*\n: ", re.MULTILINE
)
"""The text that py4j writes before an exception of Java."""
WRAPPED = re.compile(r"(?<=[\w;,])\n(?=[a-z]+ )")
"""A line break inside of a message: the next line begins with a word."""
OWN_ERROR = re.compile("(PipelineError|StateConflict): ")
"""The beginning of a cause that is an error of this package in a task."""
FILE = re.compile(r"(?P<scheme>\bfile:/{1,3}|[a-z0-9]+://|(?<!\S)/)(?P<path>[^\s'\"]+\.parquet)\b")
"""The first file of Parquet in an error, as a URI or a path."""
CALL_FAILED = "An error occurred while calling"
"""The first line of an error of py4j. The exception of Java follows."""
JVM_LOST = (
    "the JVM of Spark has ended, as for want of memory: start the job again, and give it more by "
    "--spark spark.driver.memory=4g"
)
ENDING_S_MAX = 2
ADVICE = {
    "No space left on device": "make room, and start the job again",
    "TimeoutException: Time": "no broker has answered, so see that they run, and start the job again",
    "Checksum error: ": "the file is damaged, so take it from a backup, or archive into a new directory",
}
"""The advice about causes with a text."""


@contextmanager
def explained() -> Iterator[None]:
    """Raise errors of Spark and of its JVM as PipelineError, with their cause."""
    try:
        yield
    except Exception as error:
        if not is_of_spark(error) and not has_lost_jvm(error):
            raise
        raise PipelineError(sentence(error)) from error


@contextmanager
def tolerating_end() -> Iterator[None]:
    """Ignore errors of Spark and of the connection to its JVM in a block that stops them. The JVM may be gone."""
    try:
        yield
    except Exception as error:
        if not is_of_spark(error) and not isinstance(error, OSError):
            raise


def is_of_spark(error: BaseException) -> bool:
    """Whether an error is one of Spark, or of the connection to its JVM."""
    return any(kind.__module__.split(".")[0] in ("pyspark", "py4j") for kind in type(error).__mro__)


def has_lost_jvm(error: BaseException) -> bool:
    """Whether an error is that of a call to a JVM which has ended, as if it was killed."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark import SparkContext

    if not isinstance(error, ConnectionError | Py4JError) or isinstance(error, Py4JJavaError):
        return False
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    try:
        process.wait(ENDING_S_MAX)  # its connections end before
    except TimeoutExpired:
        return False
    return True


def sentence(error: BaseException) -> str:
    """Return the cause of an error of Spark. A PipelineError of a task is a sentence by itself."""
    if has_lost_jvm(error):
        return JVM_LOST
    cause = root_cause(trace(error))
    if own := OWN_ERROR.match(cause):
        return cause[own.end() :]
    text = f"Spark has failed: {cause}"
    return next((f"{text}: {advice}" for known, advice in ADVICE.items() if known in text), text)


def trace(error: BaseException) -> str:
    """Return the text of an error with all its causes."""
    origin = getattr(error, "_origin", None)
    stack = getattr(error, "_stackTrace", None) or (_stack(origin) if origin is not None else "")
    return f"{error}\n{stack}"


def _stack(throwable: object) -> str:
    """Return the stack trace of an exception of the JVM, as far as the JVM still answers."""
    texts = []
    try:
        while throwable is not None:
            texts.append(f"Caused by: {throwable.toString()}")  # type: ignore[attr-defined]
            throwable = throwable.getCause()  # type: ignore[attr-defined]
    except Exception as error:
        if not is_of_spark(error):
            raise
    return "\n".join(texts)


def is_loss(error: BaseException) -> bool:
    """Whether a query has failed because records are gone that it was to read."""
    return LOST.search(trace(error)) is not None


def loss_reason(error: BaseException) -> str:
    """Return which records are gone, by the message of a connector."""
    found = REASON.search(trace(error))
    return found["reason"] if found else sentence(error)


def file_of(text: str) -> str:
    """Return the path or URI of the first file of Parquet in the text of an error, or nothing."""
    found = FILE.search(text)
    if found is None:
        return ""
    return unquote(f"/{found['path']}") if found["scheme"].startswith("file:") else found[0]


def root_cause(text: str) -> str:
    """Return the deepest cause in the text of an exception of Java or Python."""
    text = WRAPPED.sub(" ", JAVA_ERROR.sub(CAUSED, text))
    if TRACEBACK in text:
        lines = text[text.rindex(TRACEBACK) :].splitlines()[1:]
        found = [line for line in lines if line.strip() and not line.startswith((" ", "\t"))]
        if found and not found[0].startswith(CAUSED):
            return PACKAGE.sub("", found[0].strip())
    lost = [match["cause"] for match in LOST_TASK.finditer(text)]
    causes = [line.strip().removeprefix(CAUSED) for line in text.splitlines() if line.startswith(CAUSED)]
    deepest = causes[-1] if causes else ""
    if lost and (not deepest or "most recent failure" in deepest):
        deepest = lost[-1]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith(CALL_FAILED):
        lines = [lines[1].removeprefix(": ")]
    return PACKAGE.sub("", deepest or (lines[0] if lines else "no reason was given"))
