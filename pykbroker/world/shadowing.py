"""Modules named `wire` that Python finds instead of the package `wire`, which lies beside `pykbroker`.

This file imports nothing of `pykbroker` and of `wire`, so that it can be asked before anything else is imported.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Iterable
from os import PathLike
from os.path import dirname, isfile, join, realpath

NAME = "wire"
OURS = join(dirname(dirname(dirname(realpath(__file__)))), NAME)


def refusal() -> str:
    """Return a sentence about the module that Python imports as `wire`, or an empty string if it is ours."""
    found = _imported()
    if not found or dirname(found) == OURS:
        return ""
    return (
        f"{found} shadows the package {NAME} of pykbroker ({OURS}): rename it, or keep its directory out of"
        " Python's path (the current directory with python -m, PYTHONPATH, pytest's rootdir and pythonpath)"
    )


def require_ours(directories: Iterable[PathLike[str]] = ()) -> None:
    """Check that `wire` is ours, and warn of another one on Python's path or in these directories.

    Code of this process that expects the other one would import ours. ImportError: the other one comes first.
    """
    reason = refusal()
    if reason:
        raise ImportError(reason, name=NAME)
    for other in _others([*sys.path, *directories]):
        warnings.warn(f"'import {NAME}' finds the package of pykbroker ({OURS}) and not {other}", stacklevel=3)


def _imported() -> str:
    """Return the file of the module `wire` that is imported, or would be; empty if there is none."""
    module = sys.modules.get(NAME)
    spec = importlib.util.find_spec(NAME) if module is None else None
    file = module.__file__ if module is not None else spec.origin if spec is not None else None
    return realpath(file) if file else ""


def _others(directories: Iterable[str | PathLike[str]]) -> list[str]:
    files = (join(realpath(place), file) for place in directories for file in (f"{NAME}.py", join(NAME, "__init__.py")))
    return sorted({file for file in files if isfile(file) and dirname(file) != OURS})
