"""The search for Java: what is missing or too old is named, with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykbroker.pipeline.errors import NoJava
from pykbroker.pipeline.java import major_version, require_java


def fake_java(directory: Path, answer: str) -> str:
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g' >&2\necho '{answer}' >&2\n")
    java.chmod(0o755)
    return str(java)


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("no such thing", None),
    ],
)
def test_the_major_version_is_read(answer: str, version: int | None) -> None:
    assert major_version(answer) == version


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", 'openjdk version "17.0.1"')
    path = fake_java(tmp_path / "other", 'openjdk version "21.0.1"')
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(Path(path).parent) + ":/usr/bin:/bin"}
    assert require_java(environment) == home
    assert require_java({**environment, "JAVA_HOME": ""}) == path


@pytest.mark.parametrize(
    ("answer", "message"),
    [('java version "1.8.0_402"', "is Java 8. Spark needs Java 17 or newer"), ("?", "is of an unknown version")],
)
def test_a_java_that_is_too_old_is_named(tmp_path: Path, answer: str, message: str) -> None:
    java = fake_java(tmp_path, answer)
    with pytest.raises(NoJava, match=message) as caught:
        require_java({"JAVA_HOME": str(tmp_path)})
    assert java in str(caught.value)


def test_a_missing_java_is_named_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(NoJava, match=r"no Java in PATH\. Spark needs Java 17 or newer: install a JDK"):
        require_java({"PATH": str(tmp_path)})
    with pytest.raises(NoJava, match=f"no Java in JAVA_HOME={tmp_path}"):
        require_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"})


def test_a_java_that_cannot_run_is_named(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_bytes(b"\x7fELF, but not really")
    java.chmod(0o755)
    with pytest.raises(NoJava, match=r"bin/java cannot be run: .*Spark needs Java 17"):
        require_java({"JAVA_HOME": str(tmp_path)})
