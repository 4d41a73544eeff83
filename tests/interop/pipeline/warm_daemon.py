"""The daemon of Spark's Python workers, with the modules of the format `pykbroker` imported before it forks workers.

Spark plans each query of a Python data source in a new worker, which would otherwise import them for a second.
"""

from __future__ import annotations

import importlib
import runpy

DAEMON = "pyspark.daemon"
MODULES = ("pykbroker.pipeline.source.data_source", "pyspark.sql.worker.plan_data_source_read")

if __name__ == "__main__":
    for name in MODULES:
        importlib.import_module(name)
    runpy.run_module(DAEMON, run_name="__main__", alter_sys=True)
