"""Tests of `pykbroker log-dirs`, with a fake admin client, or on log directories without a broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pykbroker.cli.main import pykbroker as command
from pykbroker.core.address import Address
from wire.messages.describe_log_dirs import DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic


class FakeAdmin:
    async def log_dirs(self) -> list[DescribeLogDirsResult]:
        topics = [
            DescribeLogDirsTopic("b", [DescribeLogDirsPartition(10, 700, 3), DescribeLogDirsPartition(2, 50, 0, True)]),
            DescribeLogDirsTopic("a", [DescribeLogDirsPartition(0, 1, 0)]),
        ]
        return [
            DescribeLogDirsResult(0, "/x", topics, 1000, 10),
            DescribeLogDirsResult(56, "/y"),
            DescribeLogDirsResult(9999, "/z"),
        ]


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> None:
    async def converse(bootstrap: Address, work: Callable[[FakeAdmin], Awaitable[object]], _: object) -> object:
        return await work(FakeAdmin())

    monkeypatch.setattr("pykbroker.cli.ask.converse", converse)


def run(*words: object) -> Result:
    return CliRunner().invoke(command, ["log-dirs", *map(str, words)])


@pytest.mark.usefixtures("admin")
def test_log_dirs_prints_each_directory_of_a_broker() -> None:
    assert run().stdout == (
        "/x total_bytes=1000 usable_bytes=10\n"
        "TOPIC  PARTITION  BYTES  LAG  FUTURE\n"
        "a      0          1      0    no\n"
        "b      2          50     0    yes\n"
        "b      10         700    3    no\n"
        "/y KAFKA_STORAGE_ERROR\n"
        "TOPIC  PARTITION  BYTES  LAG  FUTURE\n"
        "/z error 9999\n"
        "TOPIC  PARTITION  BYTES  LAG  FUTURE\n"
    )
    assert "\na " not in run("--topic", "b").stdout


def test_log_dirs_measures_a_directory_without_a_broker(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").touch()
    (tmp_path / "b").write_text("no directory")
    for name, size in (("a-b-1", 10), (f"c-0.{'0' * 32}-future", 20), (f"d-0.{'0' * 32}-delete", 30), ("other", 40)):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020}.log").write_bytes(bytes(size))
        (tmp_path / name / f"{5:020}.log").write_bytes(bytes(size))
        (tmp_path / name / f"{0:020}.index").write_bytes(bytes(100))
    assert run(tmp_path).stdout == (
        f"{tmp_path}\n"
        "TOPIC  PARTITION  BYTES  LAG  FUTURE\n"
        "a-b    1          20     -    no\n"
        "c      0          40     -    yes\n"
    )


def test_a_directory_without_meta_properties_is_refused(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "has no meta.properties" in result.stderr
    (tmp_path / "file").touch()
    for path in tmp_path / "absent", tmp_path / "file":
        assert run(path).exit_code == 2


def test_log_dirs_without_a_running_broker_explains_what_to_do() -> None:
    result = run("--bootstrap", "127.0.0.1:1")
    assert result.exit_code == 1
    assert "no broker answers on 127.0.0.1:1" in result.stderr
