"""The sentences for errors of Spark: the deepest cause, without stack traces."""

from __future__ import annotations

from subprocess import Popen
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import AnalysisException, StreamingQueryException

from pykbroker.pipeline import spark_errors
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.spark_errors import explained, is_loss, is_of_spark, loss_reason, root_cause, sentence

FULL_DISK = """An error occurred while calling o123.parquet.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent \
failure: Lost task 0.0 in stage 3.0 (TID 3) (127.0.0.1 executor driver): java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.$anonfun$abortStage$3(DAGScheduler.scala:2935)
"""
CAUSED = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: x
org.apache.spark.SparkException: outer
\tat a.b.C
Caused by: org.apache.kafka.common.errors.TimeoutException: inner
\tat d
Caused by: java.net.ConnectException: Connection refused
\t... 3 more
"""
PYTHON = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
  File "x.py", line 3, in read
pykbroker.pipeline.source.errors.DataLoss: Some data may have been lost
\tat org.apache.spark.api.python.BasePythonRunner
Caused by: org.apache.spark.SparkException: wrapper
"""
KAFKA_LOSS = """Some data may have been lost because they are not available in Kafka any more;
either the data was aged out by Kafka or the topic may have been deleted before all the data in the
topic was processed.
If you don't want your streaming query to fail on such cases, set the source option failOnDataLoss to false.
Reason: """
IN_BATCH = f"""[STREAM_FAILED] Query [id = 1] terminated with exception: Traceback (most recent call last):
  File "parquet.py", line 61, in write
    records.write.parquet(path)
py4j.protocol.Py4JJavaError: An error occurred while calling o364.parquet.
: org.apache.spark.sql.kafka010.KafkaIllegalStateException: {KAFKA_LOSS}Could not read records in offset [3, 6) for \
topic partition t-0
with consumer group spark-kafka-source-1-executor.
\tat org.apache.spark.sql.kafka010.KafkaSourceRDD.compute(KafkaSourceRDD.scala:81)
"""
LOSS = (
    "Partition t-0's offset was changed from 10 to 20. Some data may have been lost because they are not available in "
    "Kafka any more"
)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (FULL_DISK, "IOException: No space left on device"),
        (CAUSED, "ConnectException: Connection refused"),
        (IN_BATCH, "KafkaIllegalStateException: Some data may have been lost because they are not available in Kafka"),
        (IN_BATCH[IN_BATCH.index("An error") :], "KafkaIllegalStateException: Some data may have been lost"),
        ("py4j.protocol.Py4JJavaError: An error occurred while calling o1.x.\n: a.B: c\n\tat d", "B: c"),
        (PYTHON, "DataLoss: Some data may have been lost"),
        ("[TABLE_OR_VIEW_NOT_FOUND] The table `a` cannot be found.\n;\n'Plan", "[TABLE_OR_VIEW_NOT_FOUND] The table"),
        ("org.apache.spark.sql.AnalysisException: plain\n\tat x", "AnalysisException: plain"),
        ("An error occurred while calling o1.x.\n: org.a.AccessControlException: read-only\n\tat x", "AccessControl"),
        ("An error occurred while calling o1.parquet", "An error occurred while calling o1.parquet"),
        ("", "no reason was given"),
    ],
)
def test_the_deepest_cause_is_found(text: str, cause: str) -> None:
    assert root_cause(text).startswith(cause)
    assert "\n" not in root_cause(text)


@pytest.mark.parametrize("error", [ConnectionRefusedError(), Py4JNetworkError("Answer from Java side is empty")])
def test_a_jvm_that_has_ended_is_named(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    process = Popen(["true"])
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    with pytest.raises(PipelineError, match="the JVM of Spark has ended"), explained():
        raise error
    assert process.returncode == 0


def test_a_jvm_that_runs_is_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_errors, "ENDING_S_MAX", 0.1)
    with Popen(["sleep", "60"]) as process:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        with pytest.raises(ConnectionRefusedError), explained():
            raise ConnectionRefusedError
        assert sentence(Py4JNetworkError("empty")) == "Spark has failed: empty"
        process.kill()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (IN_BATCH, "Could not read records in offset [3, 6) for topic partition t-0"),
        (
            f"{KAFKA_LOSS}Partitions Set(t-0) have been deleted. SQLSTATE: XXKST\n=== Streaming Query ===",
            "Partitions Set(t-0) have been deleted",
        ),
        ("data may have been lost. Reason: gone", "gone"),
        ("no reason", "Spark has failed: no reason"),
    ],
)
def test_a_loss_has_the_reason_of_the_connector(text: str, reason: str) -> None:
    assert loss_reason(Py4JError(text)) == reason


def test_a_full_disk_says_what_to_do() -> None:
    assert sentence(Py4JError(FULL_DISK)) == (
        "Spark has failed: IOException: No space left on device: make room, and start the job again"
    )


def test_brokers_that_do_not_answer_come_with_what_to_do() -> None:
    text = "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: listNodes"
    assert sentence(Py4JError(text)) == (
        "Spark has failed: TimeoutException: Timed out waiting for a node assignment. Call: listNodes: no broker has "
        "answered, so see that they run, and start the job again"
    )


def test_a_file_with_another_checksum_says_what_to_do() -> None:
    text = "org.apache.hadoop.fs.ChecksumException: Checksum error: file:/lake/spark/offsets/3 at 0 exp: 7 got: 8"
    assert sentence(Py4JError(text)) == (
        "Spark has failed: ChecksumException: Checksum error: file:/lake/spark/offsets/3 at 0 exp: 7 got: 8: the file "
        "is damaged, so take it from a backup, or archive into a new directory"
    )


@pytest.mark.parametrize("error", [Py4JError("x"), Py4JNetworkError("x"), AnalysisException("x")])
def test_errors_of_spark_become_errors_of_the_pipeline(error: Exception) -> None:
    assert is_of_spark(error)
    with pytest.raises(PipelineError, match="Spark has failed: x"), explained():
        raise error


@pytest.mark.parametrize("error", [KeyError("x"), OSError("x"), PipelineError("x"), KeyboardInterrupt()])
def test_other_errors_are_raised_unchanged(error: BaseException) -> None:
    assert not is_of_spark(error)
    with pytest.raises(type(error)) as caught, explained():
        raise error
    assert caught.value is error


class Throwable:
    """An exception of the JVM with a cause."""

    def __init__(self, text: str, cause: Throwable | None = None) -> None:
        self._text, self._cause = text, cause

    def toString(self) -> str:
        return self._text

    def getCause(self) -> Throwable | None:
        return self._cause


def test_the_causes_of_an_exception_of_the_jvm_are_followed() -> None:
    error = StreamingQueryException("[STREAM_FAILED] terminated")
    vars(error)["_origin"] = Throwable("a.B: outer", Throwable("c.D: inner"))
    assert sentence(error) == "Spark has failed: D: inner"
    assert not is_loss(error)
    vars(error)["_origin"] = Throwable("a.B: outer", Throwable(f"java.lang.IllegalStateException: {LOSS}"))
    assert is_loss(error)
