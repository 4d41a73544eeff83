"""Tests of the dependencies that a build of the package declares."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

ROOT = Path(__file__).parents[2]


def declared(monkeypatch: pytest.MonkeyPatch, **variables: Any) -> dict[str, str]:
    """Return dependency -> marker, as a Python with these variables builds the package."""
    monkeypatch.setattr("sysconfig.get_config_vars", lambda: variables)
    dependencies = ProjectMetadata(str(ROOT), PluginManager()).core.dependencies_complex
    return {each.name: str(each.marker or "") for each in dependencies.values()}


@pytest.mark.parametrize(
    ("variables", "has_re2"),
    [
        ({"HOST_GNU_TYPE": "x86_64-pc-linux-gnu", "SOABI": "cpython-313-x86_64-linux-gnu"}, True),
        ({"HOST_GNU_TYPE": "aarch64-apple-darwin", "SOABI": "cpython-314-darwin", "Py_GIL_DISABLED": 0}, True),
        ({"HOST_GNU_TYPE": "x86_64-alpine-linux-musl", "SOABI": "cpython-312-x86_64-linux-musl"}, False),
        ({"SOABI": "cpython-312-x86_64-linux-musl"}, False),
        ({"HOST_GNU_TYPE": "x86_64-pc-linux-gnu", "SOABI": "cpython-314t-x86_64", "Py_GIL_DISABLED": 1}, False),
    ],
)
def test_a_build_declares_re2_where_wheels_exist(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, Any], has_re2: bool
) -> None:
    found = declared(monkeypatch, **variables)
    assert {"trio", "msgspec", "fastcrc", "cramjam", "click", "javaproperties"} == found.keys() - {"google-re2"}
    assert ("google-re2" in found) == has_re2


@pytest.mark.parametrize(
    ("environment", "has_wheels"),
    [
        ({}, True),
        ({"platform_machine": "arm64", "sys_platform": "darwin"}, True),
        ({"platform_machine": "aarch64"}, True),
        ({"platform_machine": "riscv64"}, False),
        ({"python_version": "3.15"}, False),
        ({"platform_python_implementation": "PyPy"}, False),
    ],
)
def test_the_marker_of_re2_holds_where_wheels_exist(environment: dict[str, str], has_wheels: bool) -> None:
    from packaging.requirements import Requirement

    spec = spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    hook = module_from_spec(spec)
    spec.loader.exec_module(hook)
    of_linux = {"platform_machine": "x86_64", "python_version": "3.14", "platform_python_implementation": "CPython"}
    marker = Requirement(hook.RE2).marker
    assert marker is not None
    assert marker.evaluate({**of_linux, **environment}) == has_wheels
