"""Modules named `wire` that Python finds instead of the package `wire`, which lies beside `pykbroker`.

This module imports nothing from `pykbroker` and `wire`, so that it can run before they are imported.
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
    """Return an error message if Python imports another module as `wire`, or an empty string if it imports ours."""
    found = _imported()
    if not found or dirname(found) == OURS:
        return ""
    return (
        f"{found} shadows the package {NAME} of pykbroker ({OURS}): rename it, or keep its directory out of"
        " Python's path (the current directory with python -m, PYTHONPATH, pytest's rootdir and pythonpath)"
    )


def require_ours(directories: Iterable[PathLike[str]] = ()) -> None:
    """Check that Python imports our `wire`, and warn of another `wire` on Python's path or in these directories.

    The warning is for code in this process that needs the other module and would import ours. Raise ImportError if
    Python would import the other module instead of ours.
    """
    reason = refusal()
    if reason:
        raise ImportError(reason, name=NAME)
    for other in _others([*sys.path, *directories]):
        warnings.warn(f"'import {NAME}' finds the package of pykbroker ({OURS}) and not {other}", stacklevel=3)


def _imported() -> str:
    """Return the file of the module `wire` that is or would be imported, or an empty string if there is none."""
    module = sys.modules.get(NAME)
    spec = importlib.util.find_spec(NAME) if module is None else None
    file = module.__file__ if module is not None else spec.origin if spec is not None else None
    return realpath(file) if file else ""


def _others(directories: Iterable[str | PathLike[str]]) -> list[str]:
    files = (join(realpath(place), file) for place in directories for file in (f"{NAME}.py", join(NAME, "__init__.py")))
    return sorted({file for file in files if isfile(file) and dirname(file) != OURS})
