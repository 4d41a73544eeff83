"""The jars of a session: which are missing, in which order they are looked for, and what a failure says."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from pykbroker.pipeline import jars
from pykbroker.pipeline.errors import NoConnector, PipelineError
from pykbroker.pipeline.jars import (
    CENTRAL_ALONE,
    IVY,
    IVY_SETTINGS,
    PACKAGES,
    artifact,
    iceberg_package,
    missing_packages,
    reason,
    resolved,
)

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0"
UNRESOLVED = """
:: problems summary ::
:::: WARNINGS
                module not found: org.apache.spark#spark-sql-kafka-0-10_2.13;9.9.9
        ==== central: tried
          https://repo1.maven.org/maven2/org/apache/spark/spark-sql-kafka-0-10_2.13/9.9.9/spark.pom
                ::::::::::::::::::::::::::::::::::::::::::::::
                :: org.apache.spark#spark-sql-kafka-0-10_2.13;9.9.9: not found
:::: ERRORS
        Server access error at url https://repo1.maven.org/x.pom (java.net.UnknownHostException: repo1.maven.org)
        Server access error at url https://repo1.maven.org/x.jar (java.net.UnknownHostException: repo1.maven.org)
Exception in thread "main" RuntimeException: [unresolved dependency: org.apache.spark#spark-sql;9.9: not found]
        at org.apache.spark.util.MavenUtils$.resolveMavenCoordinates(MavenUtils.scala:562)
"""


class Attempts:
    """The sessions that were tried, of which only those with a setting can start."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, needs: str) -> None:
        self.tried: list[Mapping[str, str]] = []
        self._needs = needs
        monkeypatch.setattr(jars, "_failure", self.failure)

    def failure(self, conf: Mapping[str, str]) -> str:
        self.tried.append(conf)
        return "" if self._needs in conf else f"{len(self.tried)} failed"


@pytest.mark.parametrize(
    ("conf", "missing"),
    [
        ({}, (CONNECTOR, ICEBERG)),
        ({PACKAGES: "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.1"}, (ICEBERG,)),
        ({"spark.jars": "/x/iceberg-spark-runtime-4.0_2.13-1.9.jar"}, (CONNECTOR,)),
        ({"spark.jars": "/x/iceberg-spark-runtime.jar", PACKAGES: f"a:b:1,{CONNECTOR}"}, ()),
        ({"spark.driver.extraClassPath": "/x/spark-sql-kafka-0-10_2.13-4.0.0.jar"}, (ICEBERG,)),
        ({PACKAGES: "org.apache.hadoop:hadoop-aws:3.4.1"}, (CONNECTOR, ICEBERG)),
    ],
)
def test_packages_that_a_user_gives_are_not_missing(conf: dict[str, str], missing: tuple[str, ...]) -> None:
    assert missing_packages((CONNECTOR, ICEBERG), conf) == missing


def test_an_artifact_has_neither_group_nor_version() -> None:
    assert (artifact(CONNECTOR), artifact(ICEBERG)) == ("spark-sql-kafka-0-10", "iceberg-spark-runtime")


def test_cached_packages_need_no_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = Attempts(monkeypatch, PACKAGES)
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "org.apache.spark_spark-sql-kafka-0-10_2.13-4.0.0.jar").touch()
    assert resolved((CONNECTOR,), {IVY: str(tmp_path)}) == {PACKAGES: CONNECTOR}
    assert attempts.tried == []
    assert resolved((CONNECTOR,), {IVY: str(tmp_path), PACKAGES: "a:b:1"}) == {PACKAGES: f"a:b:1,{CONNECTOR}"}
    assert attempts.tried == [{IVY: str(tmp_path), PACKAGES: f"a:b:1,{CONNECTOR}"}]


def test_the_second_attempt_asks_maven_central_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = Attempts(monkeypatch, IVY_SETTINGS)
    found = resolved((CONNECTOR,), {IVY: str(tmp_path)})
    assert found == {PACKAGES: CONNECTOR, IVY_SETTINGS: str(tmp_path / "central-alone.xml")}
    assert Path(found[IVY_SETTINGS]).read_text() == CENTRAL_ALONE
    assert [IVY_SETTINGS in each for each in attempts.tried] == [False, True]


def test_settings_of_a_users_ivy_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = Attempts(monkeypatch, "nothing")
    with pytest.raises(NoConnector, match=f"the jars of {CONNECTOR} could not be fetched: 1 failed"):
        resolved((CONNECTOR,), {IVY: str(tmp_path), IVY_SETTINGS: "/mirror.xml"})
    assert [each[IVY_SETTINGS] for each in attempts.tried] == ["/mirror.xml"]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Attempts(monkeypatch, IVY_SETTINGS)
    (tmp_path / "file").touch()
    with pytest.raises(NoConnector, match=r"name another directory with --spark spark\.jars\.ivy=DIR"):
        resolved((CONNECTOR,), {IVY: str(tmp_path / "file")})


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (
            UNRESOLVED,
            "unresolved dependency: org.apache.spark#spark-sql;9.9: not found; Server access error at url "
            "https://repo1.maven.org/x.pom (java.net.UnknownHostException: repo1.maven.org)",
        ),
        ("WARNING: x\njava.lang.UnsupportedOperationException: getSubject\n\tat x", "java.lang.Unsupported"),
        ("JAVA_HOME is not set\n", "JAVA_HOME is not set"),
        ("", "no reason was given"),
    ],
)
def test_the_reason_of_a_failed_start_is_one_line(output: str, expected: str) -> None:
    found = reason(output)
    assert found.startswith(expected)
    assert "\n" not in found


def test_iceberg_is_known_for_some_versions_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "version", lambda _: "4.0.3")
    assert iceberg_package() == ICEBERG
    monkeypatch.setattr(jars, "version", lambda _: "4.9.0")
    with pytest.raises(
        NoConnector,
        match=r"need pyspark 4\.0 or 4\.1, and this is 4\.9\.0: pip install 'pykbroker\[spark\]' 'pyspark==4\.1\.\*'$",
    ):
        iceberg_package()


def test_a_missing_pyspark_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(jars, "version", missing)
    with pytest.raises(PipelineError, match=r"pip install 'pykbroker\[spark\]'"):
        jars.connector_package()
