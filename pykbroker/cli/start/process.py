"""Settings of the whole process, which only the command line changes: log, open files, memory, garbage collection."""

from __future__ import annotations

import atexit
import gc
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

LOG_FORMAT = "%(asctime)s.%(msecs)03d %(levelname)-7s %(message)s"
LOG_TIME = "%Y-%m-%d %H:%M:%S"
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt, from glibc's malloc.h."""
FREED_BYTES_KEPT = 64 << 20
MAPPED_BYTES_MIN = 32 << 20
"""The least size of a buffer that is returned to the kernel as soon as it is freed."""
GARBAGE_THRESHOLDS = (10_000, 20, 50)
"""The collector's thresholds.

With the first one at 50,000, a collection took 46 ms while a million offsets were loaded.
"""


class OneLine(logging.Formatter):
    """A formatter that keeps each event on one line, whatever text a client sent. Only tracebacks take more lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return "".join(each if each.isprintable() else repr(each)[1:-1] for each in super().formatMessage(record))


class JsonLine(logging.Formatter):
    """A formatter that writes one JSON object a line.

    The fields are `time` (RFC 3339, UTC), `level`, `logger`, `message`, and `traceback` where there is one.
    """

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": time, "level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def write_log(level: str, log_format: str) -> None:
    """Write events of this level and above to stderr, as "text" or as "json"."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLine() if log_format == "json" else OneLine(LOG_FORMAT, LOG_TIME))
    logging.basicConfig(level=level.upper(), handlers=[handler])


def keep_freed_memory() -> None:
    """Have glibc keep up to `FREED_BYTES_KEPT` of freed memory for the buffers of the next batch.

    By default glibc returns 1 MB to the kernel after each batch, and the kernel clears those pages again for the next
    batch. The clearing costs 460 page faults per batch, and 1.1 ms of the 1.3 ms that checking a batch of 1 MB took.
    """
    call_glibc("mallopt", M_TRIM_THRESHOLD, FREED_BYTES_KEPT)
    call_glibc("mallopt", M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)


def return_freed_memory() -> None:
    """Have glibc return the memory that the start has freed to the kernel.

    That takes 0.5 ms and is 0.8 of the 41 MB of an idle broker. Without it, `keep_freed_memory` would keep it.
    """
    call_glibc("malloc_trim", 0)


def call_glibc(function: str, *arguments: int) -> None:
    """Call a function of glibc, where there is one: neither other systems nor musl have these functions."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    called = getattr(ctypes.CDLL(None), function, None)
    if called is not None:
        called(*arguments)


@contextmanager
def garbage_collector_off() -> Iterator[None]:
    """Disable garbage collection during the block.

    The objects of a start are permanent; scanning them takes 5 % of its time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def settle_garbage_collector() -> None:
    """Exempt the objects of the start from collection, collect less often, and not at exit.

    Requests then take 10 to 25 % less time. At exit, a collection of 10,000 partitions takes 0.5 s and frees no more
    than the end of the process does.
    """
    # No collection comes first: with 2,000 partitions it would stop the event loop for 90 ms, to free 34 objects.
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    gc.enable()
    atexit.register(gc.freeze)
