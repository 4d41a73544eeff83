"""Jobs over SASL_SSL with the file of a Java client, with both connectors and on a broker with ACLs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from pykbroker.cli.main import pykbroker
from pykbroker.testing.running import RunningBroker, running_broker
from tests.interop.pipeline.marks import spark_marks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = spark_marks()
USERS = {"alice": "alice-canary", "bob": "bob-canary"}
ONE_PARTITION = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}


@pytest.fixture
def secured() -> Iterator[RunningBroker]:
    topics = {"orders": 2, "copies": 2}
    with running_broker(tls=True, users=USERS, authorize=True, topics=topics, configs=ONE_PARTITION) as broker:
        yield broker


def test_jobs_connect_by_the_file_of_a_client(spark: SparkSession, secured: RunningBroker, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    for user in USERS:
        lines = (f"{name}={value}\n" for name, value in secured.java(user).items())
        (tmp_path / user).write_text("".join(lines))

    def run(*words: str, user: str = "alice", code: int = 0, lines: str | None = None) -> str:
        environ = {"PYKBROKER_BOOTSTRAP": secured.bootstrap, "PYKBROKER_CLIENT_CONFIG": str(tmp_path / user)}
        done = CliRunner().invoke(pykbroker, list(words), env=environ, input=lines)
        assert done.exit_code == code, done.output
        assert "canary" not in done.output
        return done.stdout

    def job(*words: str, user: str = "alice", code: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(run("pipeline", *words, "--json", user=user, code=code))
        return found

    run("produce", "orders", lines="one\ntwo\nthree\n")
    of_bob = ("archive", "--topics", "orders", "--to", str(tmp_path / "of-bob"))
    assert "or allow this user to DESCRIBE it" in job(*of_bob, user="bob", code=1)["error"]
    assert job("archive", "--topics", "orders", "--to", lake, "--connector", "jvm")["records"] == 3
    audited = job("audit", "--topics", "orders", "--connector", "python")
    assert [each["records"] for side in audited["sides"] for each in side["topics"]] == [3]
    assert job("replay", "--archive", lake, "--to", "copies")["records"] == 3
    assert sorted(run("consume", "copies").splitlines()) == ["one", "three", "two"]
    files = [path for path in (tmp_path / "lake").rglob("*") if path.is_file()]
    assert files
    assert not any(b"canary" in path.read_bytes() for path in files)
