"""The packages that are sent to executors: what tasks need, with all that it requires."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.executors import closure, pack, requirements


def test_requirements_of_extras_and_of_other_platforms_are_left_out() -> None:
    texts = [
        "attrs>=23",
        "idna",
        "no-such-thing>=1; os_name == 'nt' and x",
        "pytest; extra == 'test'",
        "neither-this ; 1",
    ]
    assert requirements(texts) == ["attrs", "idna"]
    assert requirements(["msgspec>=1; python_version > '3'"]) == ["msgspec"]


def test_a_closure_has_what_a_distribution_requires_but_not_spark() -> None:
    names = {each.metadata["Name"].lower() for each in closure(("pykbroker", "pandas"))}
    assert names >= {"msgspec", "trio", "attrs", "outcome", "sniffio", "pandas", "numpy", "python-dateutil"}
    assert not names & {"pyspark", "py4j", "pykbroker"}


def test_a_distribution_that_is_missing_here_is_named() -> None:
    with pytest.raises(PipelineError, match="no-such-thing is not installed here"):
        closure(("no_such_thing",))


def test_directories_that_no_task_imports_from_are_not_sent(tmp_path: Path) -> None:
    place = tmp_path / "a-1.dist-info"
    place.mkdir()
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: a\nVersion: 1\n")
    files = ("a/__init__.py", "a/tests/__init__.py", "a/include/a.h", "a/testing/tests.py")
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (place / "RECORD").write_text("".join(f"{name},,\n" for name in files))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        pack(tmp_path / "packages.tar", ("a",))
    with tarfile.open(tmp_path / "packages.tar") as archive:
        assert archive.getnames() == ["a/__init__.py", "a/testing/tests.py"]


def test_a_python_without_packages_imports_what_is_packed(tmp_path: Path) -> None:
    pack(tmp_path / "packages.tar", ("pykbroker", "msgspec", "trio"))
    with tarfile.open(tmp_path / "packages.tar") as archive:
        names = archive.getnames()
        assert not [name for name in names if ".." in name]
        assert {name.split("/")[0] for name in names if name.endswith(".pyc")} >= {"msgspec", "trio"}
        assert not [name for name in names if name.endswith(".pyc") and name.startswith(("pykbroker", "wire"))]
        archive.extractall(tmp_path / "unpacked", filter="data")
    code = "import pykbroker.core.version, wire.api, msgspec, trio; print(msgspec.__file__, wire.__file__)"
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append('{tmp_path}/unpacked'); {code}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert run.stdout.count(str(tmp_path / "unpacked")) == 2
