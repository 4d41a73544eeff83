"""Fixtures that run a simulation in a process of its own, since a simulation patches modules and seeds trio."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.unit.sim.processes import ForkingProcess, run_fresh

UNLIKE = (
    {"hash_seed": "1", "junk": 10_007, "threshold": 1},
    {"hash_seed": "42", "junk": 7, "threshold": 100_000},
    {"hash_seed": "random", "junk": 3_001},
)
"""Arguments of `apart` that make three processes differ."""
SEARCHED = int(os.environ.get("SEARCH_SEEDS", "0"))

Apart = Callable[..., tuple[Any, str]]


@pytest.fixture(scope="session")
def forking() -> Iterator[ForkingProcess]:
    """Yield a process that is forked for each run."""
    process = ForkingProcess()
    yield process
    process.close()


@pytest.fixture
def apart(forking: ForkingProcess) -> Apart:
    """Return a function `apart(scene)` that runs `await scene(simulation)` in another process.

    The function returns the scene's result and the digest of its run. The arguments of `run_fresh`, if they are given,
    make two processes differ.
    """

    def run(scene: Callable[..., Any], *, seed: int = 1, **unlike: Any) -> tuple[Any, str]:
        place = (scene.__code__.co_filename, scene.__name__, seed)
        outcome = run_fresh(*place, **unlike) if unlike else forking.run(*place)
        assert outcome.status == 0, outcome.errors
        result, digest = json.loads(outcome.output)
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
