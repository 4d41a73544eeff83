"""No files import each other in a circle, also not for types alone or within functions."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def imports(sources: dict[str, str]) -> dict[str, set[str]]:
    """Return the modules that each module imports, of those in `sources`, which maps their names to their texts."""
    found = {}
    for name, text in sources.items():
        named = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                named |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                members = {f"{node.module}.{each.name}" for each in node.names}
                named |= {each if each in sources else node.module for each in members}
        found[name] = named & sources.keys() - {name}
    return found


def test_files_do_not_import_each_other_in_a_circle() -> None:
    sources = {}
    for top in ("pykbroker", "tools", "wire"):
        for path in (ROOT / top).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            sources[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text()
    TopologicalSorter(imports(sources)).prepare()


def test_a_circle_is_found() -> None:
    circle = {"a": "from b import x", "b": "def f():\n    import c", "c": "from typing import Any\nfrom a import y"}
    with pytest.raises(CycleError):
        TopologicalSorter(imports(circle)).prepare()
