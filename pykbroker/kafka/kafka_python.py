"""The modules of kafka-python, where it is installed."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def module_of(name: str) -> ModuleType | None:
    """Return a module of kafka-python, or None without it. Another package, or a folder, may also be named `kafka`."""
    try:
        return import_module(f"kafka.{name}")
    except ImportError:
        return None
