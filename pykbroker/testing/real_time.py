"""The functions of `time` that freezegun cannot replace.

freezegun replaces functions of `time` in the namespace of each module, but not in a class. This file must be imported
before a test freezes time.
"""

from __future__ import annotations

import time


class RealTime:
    """The functions of `time`, as they were at the import."""

    perf_counter = staticmethod(time.perf_counter)
    perf_counter_ns = staticmethod(time.perf_counter_ns)
    time_ns = staticmethod(time.time_ns)
