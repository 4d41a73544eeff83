"""Fixtures that run a simulation in a process of its own, since a simulation patches modules and seeds trio."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
CHILD = """
import gc, importlib.util, json, sys
path, scene, seed, junk, threshold = sys.argv[1:]
heap = [bytearray(size) for size in range(int(junk))]
del heap[::2]
gc.set_threshold(int(threshold))
from pykbroker.sim.simulation import simulate
spec = importlib.util.spec_from_file_location("scenes", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(json.dumps(simulate(int(seed), getattr(module, scene))))
"""

UNLIKE = (
    {"hash_seed": "1", "junk": 10_007, "threshold": 1},
    {"hash_seed": "42", "junk": 7, "threshold": 100_000},
    {"hash_seed": "random", "junk": 3_001},
)
"""Arguments of `apart` that make three processes differ."""
SEARCHED = int(os.environ.get("SEARCH_SEEDS", "0"))

Apart = Callable[..., tuple[Any, str]]


@pytest.fixture
def apart() -> Apart:
    """Return a function `apart(scene)` that runs `await scene(simulation)` in another process.

    The function returns the scene's result and the digest of its run. Its arguments `hash_seed`, `junk` (objects on the
    heap) and `threshold` (of the garbage collector) make two processes differ.
    """

    def run(
        scene: Callable[..., Any], *, seed: int = 1, hash_seed: str = "0", junk: int = 0, threshold: int = 700
    ) -> tuple[Any, str]:
        words = [scene.__code__.co_filename, scene.__name__, str(seed), str(junk), str(threshold)]
        child = subprocess.run(
            [sys.executable, "-c", CHILD, *words],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=200,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        assert child.returncode == 0, child.stderr
        result, digest = json.loads(child.stdout)
        return result, digest

    return run


@pytest.fixture
def expect_finding(apart: Apart) -> Callable[..., None]:
    """Return `expect_finding(scene, name, first_seed, seeds_max)`, which fails unless a seed leads to the finding
    `name`.

    The environment variable SEARCH_SEEDS=60 makes it try that many seeds from 0 on, to find a new `first_seed`.
    """

    def search(scene: Callable[..., Any], name: str, first_seed: int, seeds_max: int) -> None:
        first, count = (0, SEARCHED) if SEARCHED else (first_seed, seeds_max)
        findings: list[str] = []
        for seed in range(first, first + count):
            findings += apart(scene, seed=seed)[0]
            if any(name in finding for finding in findings):
                print(f"{scene.__name__}: seed {seed}, of {seed - first + 1}")
                return
        pytest.fail(f"{count} seeds found: {findings[:10]}")

    return search
