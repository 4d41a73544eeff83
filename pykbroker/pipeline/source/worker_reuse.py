"""Remedies for the time that Spark's Python workers lose between two tasks, and at the start of a task.

A worker calls `importlib.invalidate_caches()` before each task. Before Python 3.12, each importer of a zip archive then
reads the directory of its archive again, and pyspark comes from an archive, with an importer for each of its packages.
That takes 200 ms. After each task, a worker calls `gc.collect()`, which visits the objects of all imported modules, and
takes 30 ms.

Spark sends a task and its input in two parts over TCP. Nagle's algorithm holds the second part until the worker has
acknowledged the first one, which the kernel of the worker delays by 40 ms in the hope of an answer to send with it.
"""

from __future__ import annotations

import functools
import gc
import os
import socket
import sys
from contextlib import suppress
from zipimport import zipimporter

WORKER = "pyspark.daemon"
"""The main module of Spark's Python workers, which are forked from a daemon."""


def prepare_next_task() -> None:
    """Make the next task of this process start sooner. Call this in a task, once it has imported what it needs."""
    forget_zip_importers()
    main = getattr(sys.modules["__main__"], "__spec__", None)
    if main is not None and main.name == WORKER:
        keep_modules()


def acknowledge_input() -> None:
    """Acknowledge what this process has read by TCP, so that Spark sends the rest. Call this early in a task."""
    if not hasattr(socket, "TCP_QUICKACK"):
        return
    for descriptor in map(int, os.listdir("/dev/fd")):
        with suppress(OSError):  # no socket, none of TCP, or the descriptor of the listing itself
            found = socket.socket(fileno=descriptor)
            try:
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            finally:
                found.detach()


def forget_zip_importers() -> None:
    """Drop the importers of zip archives from Python's cache. The next import from an archive makes a new one."""
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):
            del sys.path_importer_cache[path]


@functools.cache
def keep_modules() -> None:
    """Exempt the objects of the modules from further collections of garbage. Only the first call does so.

    A later call would also exempt the garbage of earlier tasks.
    """
    gc.collect()
    gc.freeze()
