"""Readers and writers in an executor whose Python lacks something."""

from __future__ import annotations

import pickle
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from pyspark import cloudpickle

from pykbroker.core.version import VERSION
from pykbroker.pipeline.source.batch_reader import TopicBatchReader
from pykbroker.pipeline.source.read_options import batch_options, stream_options
from pykbroker.pipeline.source.stream_reader import TopicStreamReader
from pykbroker.pipeline.source.unpacking import unpacked
from pykbroker.pipeline.source.write_options import write_options
from pykbroker.pipeline.source.writers import StreamTopicWriter, TopicWriter

NEEDED = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "t"}
WRITING = {"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "t"}
SHIPPED = [
    TopicBatchReader(batch_options(NEEDED)),
    TopicStreamReader(stream_options(NEEDED)),
    TopicWriter(write_options(WRITING)),
    StreamTopicWriter(write_options(WRITING), [("value", "binary")]),
]
LOAD = "import pickle, sys; sys.path.append(sys.argv[1]); pickle.loads(sys.stdin.buffer.read())"


def run(code: str, path: Path, stdin: bytes) -> str:
    """Return the standard error of a Python that has only the packages in `path`."""
    command = [sys.executable, "-I", "-S", "-c", code, str(path)]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=50).stderr.decode()


@pytest.mark.parametrize("shipped", SHIPPED, ids=lambda found: type(found).__name__)
def test_an_object_arrives_where_the_package_is(shipped: object) -> None:
    arrived = pickle.loads(cloudpickle.dumps(shipped))  # noqa: S301
    assert type(arrived) is type(shipped)
    assert arrived._options == shipped._options  # type: ignore[attr-defined]


def test_an_executor_without_the_package_says_what_to_install(tmp_path: Path) -> None:
    for name in ("pyspark", "py4j"):
        spec = find_spec(name)
        assert spec is not None
        (tmp_path / name).symlink_to(Path(str(spec.origin)).parent)
    error = run(LOAD, tmp_path, cloudpickle.dumps(SHIPPED[0])).splitlines()[-1]
    assert error.startswith(f"RuntimeError: the Python of this Spark executor ({sys.executable} on ")
    assert "lacks a package that the format pykbroker needs: No module named 'pykbroker'" in error
    assert f"Install pykbroker[spark]=={VERSION}" in error
    assert "spark.archives" in error


def test_an_executor_with_another_version_is_refused() -> None:
    with pytest.raises(RuntimeError, match=rf"has pykbroker {VERSION}, but the driver has 0.0.1"):
        unpacked("0.0.1", b"")
