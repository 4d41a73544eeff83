"""The errors that are losses of an archive, by the texts that Spark 4, Iceberg and file systems write."""

from __future__ import annotations

import pytest

from pykbroker.pipeline.jobs.unreadable import unreadable_file

FILE = "/data/lake/topic=t/date=2026-11-24/batch-0-u.parquet"
TASK = "org.apache.spark.SparkException: Job aborted due to stage failure: Lost task 0.0 in stage 30.0 (TID 25): "
READING = f"{TASK}[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file://{FILE}. "
ICEBERG = "org.apache.iceberg.exceptions."


@pytest.mark.parametrize(
    "text",
    [
        f"{TASK}{ICEBERG}NotFoundException: File does not exist: {FILE}",
        f"Caused by: java.io.FileNotFoundException: File {FILE} does not exist",
        f"[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file://{FILE}. File does not exist.",
        f"[PATH_NOT_FOUND] Path does not exist: file:{FILE}. SQLSTATE: 42K03",
        f"{READING} SQLSTATE: KD001\nCaused by: java.lang.RuntimeException: file:{FILE} is not a Parquet file. x",
        f"{TASK}{ICEBERG}RuntimeIOException: Failed to open Parquet file: {FILE}\n"
        f"Caused by: org.apache.hadoop.fs.ChecksumException: Checksum error: file:{FILE} at 3584 exp: 1 got: 2",
        f"{READING}\nCaused by: java.io.IOException: could not decode the dictionary for [key] optional binary key",
        f"{READING}\nCaused by: java.io.IOException: FAILED_TO_UNCOMPRESS(5)",
        f"{READING}\nCaused by: org.apache.parquet.io.ParquetDecodingException: Can not read value at 0",
        f"{READING}\nCaused by: java.io.IOException: can not read class org.apache.parquet.format.PageHeader: x",
        *(
            f"{READING}\n\tat x\nCaused by: java.lang.RuntimeException: x\nCaused by: {cause}\n\tat x"
            for cause in (
                "org.apache.parquet.io.InvalidRecordException: ke\ufffd not found in message spark_schema {",
                "java.io.IOException: could not read page in col [key] optional binary key as the dictionary was",
                f"java.io.IOException: Expected 136 values in column chunk at file:{FILE} offset 362 but got 200",
                "java.lang.IllegalStateException: STRING can only annotate BINARY",
                "java.lang.NullPointerException",
                'java.lang.NullPointerException: Cannot invoke "x"',
                "java.lang.ArrayIndexOutOfBoundsException: Index 7 out of bounds for length 2",
                "java.lang.IndexOutOfBoundsException",
                "java.lang.ClassCastException: optional group key {",
                "java.io.EOFException",
                "java.io.EOFException: Cannot seek after EOF",
            )
        ),
        f"{TASK}x file {FILE}\n{ICEBERG[:19]}shaded.org.apache.parquet.io.ParquetDecodingException: x",
    ],
)
def test_a_missing_or_damaged_file_of_the_archive_is_named(text: str) -> None:
    for place in ("/data/lake", "/data/lake/", "file:/data/lake"):
        assert unreadable_file(text, place) == FILE
    for place in ("/lake", "/data/lak", "/data/lake/topic", "/other/data/lake"):
        assert unreadable_file(text, place) is None


@pytest.mark.parametrize(
    "text",
    [
        f"{TASK}java.io.FileNotFoundException: /tmp/blockmgr-1/0c/temp_shuffle_1 (Too many open files)",
        f"{TASK}java.io.FileNotFoundException: {FILE} (Too many open files)",
        f"{TASK}{ICEBERG}NotFoundException: Failed to open input stream for file: {FILE}\n"
        f"Caused by: java.io.FileNotFoundException: {FILE} (Permission denied)",
        f"{TASK}java.io.FileNotFoundException: /tmp/blockmgr-1/0c/temp_shuffle_1 (No such file or directory)",
        f"{ICEBERG}ServiceFailureException: Server error: 503",
        f"{ICEBERG}RuntimeIOException: Connection refused",
        f"{READING}\nCaused by: java.net.ConnectException: Connection refused",
        f"{READING}\nCaused by: software.amazon.awssdk.services.s3.model.S3Exception: Slow Down (Status Code: 503)",
        f"{READING}\nCaused by: java.lang.OutOfMemoryError: Java heap space",
        f"{TASK}x file {FILE}\nCaused by: java.lang.NullPointerException",
        f"{READING}\nCaused by: java.lang.NullPointerException\nCaused by: java.net.ConnectException: refused",
        f"{READING}\nCaused by: java.io.EOFException: End of File Exception between local host is: x",
        "java.lang.RuntimeException: file:/other/lake/x.parquet is not a Parquet file",
        "",
    ],
)
def test_all_else_is_no_verdict_about_the_archive(text: str) -> None:
    assert unreadable_file(text, "/data/lake") is None


def test_a_directory_of_another_file_system_and_one_with_spaces_are_known() -> None:
    text = "java.io.FileNotFoundException: File does not exist: "
    assert unreadable_file(f"{text}hdfs://host:8020/data/lake/x.parquet", "hdfs://host:8020/data/lake")
    assert unreadable_file(f"{text}/data/lake/x.parquet", "hdfs://host:8020/data/lake")  # as HDFS itself says it
    assert unreadable_file(f"{text}s3a://bucket/lake/x.parquet", "s3a://bucket/lake")
    assert unreadable_file(f"{text}file:///my%20data/lake/x.parquet", "/my data/lake") == "/my data/lake/x.parquet"
    for place in ("/data/lake?x", "/data/lake#1", "/data/50%2Flake"):
        assert unreadable_file(f"{text}{place}/x.parquet", place)
    assert unreadable_file(f"{text}file:///data/lake%3Fx/x.parquet", "/data/lake?x")
    assert unreadable_file(f"{text}hdfs://host:8020/tmp/data/lake/x.parquet", "hdfs://host:8020/data/lake") is None
