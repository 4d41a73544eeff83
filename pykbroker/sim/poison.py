"""The guard against nondeterminism: in a simulation, access to the real machine's clocks or threads raises an error."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import trio

CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")
DICE = (
    "random",
    "randint",
    "randrange",
    "randbytes",
    "choice",
    "choices",
    "shuffle",
    "sample",
    "uniform",
    "getrandbits",
    "_urandom",
)
OTHERS: tuple[tuple[Any, str], ...] = (
    (time, "sleep"),
    (os, "urandom"),
    (os, "getrandom"),
    (uuid, "uuid1"),
    (uuid, "uuid4"),
    (threading.Thread, "start"),
    (trio.to_thread, "run_sync"),
)
WALL_S = 1_700_000_000
"""The initial time of the wall clocks of simulated machines, in seconds since 1970."""


@contextmanager
def poisoned() -> Iterator[None]:
    """Make every access to the real machine raise an error in this block. All log records get the same timestamp."""
    targets = [*((time, name) for name in CLOCKS), *((random, name) for name in DICE), *OTHERS]
    targets = [(owner, name) for owner, name in targets if hasattr(owner, name)]
    originals = [(owner, name, getattr(owner, name)) for owner, name in targets]
    for owner, name in targets:
        setattr(owner, name, _stand_in(owner, name))
    try:
        yield
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)


def _stand_in(owner: Any, name: str) -> Callable[..., int]:
    def refuse(*_args: object, **_named: object) -> NoReturn:
        raise RuntimeError(f"{owner.__name__}.{name} in a simulation: use a seam of World instead")

    def stamp(*args: object) -> int:
        if sys._getframe(1).f_globals["__name__"] == "logging":
            return WALL_S * (1_000_000_000 if name == "time_ns" else 1)
        refuse(*args)

    return stamp if name in ("time", "time_ns") else refuse
