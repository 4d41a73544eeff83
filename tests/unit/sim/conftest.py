"""Simulations poison the machine and seed trio, so each runs in a process of its own."""

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

Apart = Callable[..., tuple[Any, str]]


@pytest.fixture
def apart() -> Apart:
    """`apart(scene)` runs `await scene(simulation)` in another process: what it returned as JSON, and the digest.

    `hash_seed`, `junk` (objects on the heap) and `threshold` (of the garbage collector) make processes unlike.
    """
    def run(scene: Callable[..., Any], *, seed: int = 1, hash_seed: str = "0", junk: int = 0,
            threshold: int = 700) -> tuple[Any, str]:
        words = [scene.__code__.co_filename, scene.__name__, str(seed), str(junk), str(threshold)]
        child = subprocess.run([sys.executable, "-c", CHILD, *words], cwd=ROOT, capture_output=True, text=True,
                               timeout=50, env={**os.environ, "PYTHONHASHSEED": hash_seed})
        assert child.returncode == 0, child.stderr
        result, digest = json.loads(child.stdout)
        return result, digest

    return run
