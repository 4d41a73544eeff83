"""The tasks of the clients, which Ctrl-C must not end: trio raises it in whatever task runs, unless it is protected."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from pykbroker import client

ROOT = Path(client.__file__).parents[1]
PLACES = ("client/*.py", "producer/*.py", "consumer/*.py", "world/system_net.py", "world/system_connect.py")
STARTS = "start_soon", "nursery.start", "shell.start"
PROTECTION = "enable_ki_protection"

Functions = dict[str, list[ast.AsyncFunctionDef]]


def functions(trees: list[ast.Module]) -> Functions:
    """Return the async functions by their names."""
    found: Functions = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.AsyncFunctionDef):
                found.setdefault(node.name, []).append(node)
    return found


def started(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the functions that are started as tasks."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(STARTS):
            for given in node.args[:1]:
                if isinstance(given, ast.Name | ast.Attribute):
                    yield given.id if isinstance(given, ast.Name) else given.attr


def is_protected(function: ast.AsyncFunctionDef) -> bool:
    """Whether a function is protected, or declared only."""
    is_declared = len(function.body) == 1 and isinstance(function.body[0], ast.Expr)
    return is_declared or any(PROTECTION in ast.unparse(each) for each in function.decorator_list)


def test_each_task_is_protected_from_ctrl_c() -> None:
    trees = {path: ast.parse(path.read_text()) for place in PLACES for path in sorted(ROOT.glob(place))}
    everywhere = functions(list(trees.values()))
    names = {(path.name, name) for path, tree in trees.items() for name in started(tree)}
    assert ("system_connect.py", "attempt") in names
    open_to_interrupts = set()
    for path, tree in trees.items():
        nearest = functions([tree])
        for name in started(tree):
            found = nearest.get(name) or everywhere.get(name, [])
            if not all(map(is_protected, found)):
                open_to_interrupts.add(f"{path.name}: {name}")
    assert not open_to_interrupts
