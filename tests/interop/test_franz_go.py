"""franz-go's own tests of transactions, from its Go module, against three brokers.

`TestTxnEtl` copies records from topic to topic in transactions that begin while the last one ends, in groups of each
protocol. With `PYKBROKER_TEST_FRANZ_GO_RECORDS=500000` (franz-go's own number) it copies so many records, and the tests
of groups without transactions run, too. The first run compiles the tests, which takes half a minute of CPU time.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.our_cluster import REPLICATED, SETTINGS, OurCluster

MODULE = "github.com/twmb/franz-go@v1.22.3"
RECORDS = "PYKBROKER_TEST_FRANZ_GO_RECORDS"
IS_LONG = RECORDS in os.environ
FETCH_S_MAX, COMPILE_S_MAX = 120, 400
RUN_S_MAX = 3600 if IS_LONG else 90
FAST_COMPILE = ("-vet=off", "-gcflags=all=-N -l")
"""Options without which the compilation takes a third longer, while the tests hardly get faster."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[OurCluster]:
    running = OurCluster(tmp_path, 3, (*SETTINGS, *REPLICATED))
    yield running
    running.kill()


@pytest.fixture
def kgo_tests(tmp_path: Path) -> tuple[str, Path]:
    """Compile the tests of franz-go. Return the path of the program, and the directory in which it runs.

    `go` fetches the module from its proxy and compares it with the checksum database.
    """
    if shutil.which("go") is None:
        pytest.skip("Go is not installed")
    environ = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "auto"}

    def go(*words: str, seconds_max: int) -> str:
        done = subprocess.run(
            ["go", *words], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=seconds_max
        )
        assert done.returncode == 0, f"go {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    module = json.loads(go("mod", "download", "-json", MODULE, seconds_max=FETCH_S_MAX))["Dir"]
    program = str(tmp_path / "kgo.test")
    go("test", "-C", module, "-c", *FAST_COMPILE, "-o", program, "./pkg/kgo", seconds_max=COMPILE_S_MAX)
    return program, Path(module) / "pkg" / "kgo"


@pytest.mark.timeout(FETCH_S_MAX + COMPILE_S_MAX + RUN_S_MAX + 60)
def test_franz_go_copies_records_in_transactions(kgo_tests: tuple[str, Path], cluster: OurCluster) -> None:
    program, directory = kgo_tests
    tests = "^Test(TxnEtl|GroupETL)$" if IS_LONG else "^TestTxnEtl$"
    environ = {**os.environ, "KGO_SEEDS": cluster.bootstrap, "KGO_TEST_RECORDS": os.environ.get(RECORDS, "2000")}
    if not IS_LONG:
        environ["KGO_TEST_MAX_TOPIC_PARTS"] = "7"
    words = [program, f"-test.run={tests}", "-test.v", f"-test.timeout={RUN_S_MAX}s"]
    done = subprocess.run(
        words, cwd=directory, env=environ, capture_output=True, text=True, check=False, timeout=RUN_S_MAX + 30
    )
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-10_000:]
    assert "--- PASS: TestTxnEtl " in done.stdout
    assert cluster.stop() == [0, 0, 0]
