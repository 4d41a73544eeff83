"""A remedy for the 200 ms that Spark's Python workers lose before each task.

A worker calls `importlib.invalidate_caches()` before each task. Before Python 3.12, each importer of a zip archive then
reads the directory of its archive again, and pyspark comes from an archive, with an importer for each of its packages.
"""

from __future__ import annotations

import sys
from zipimport import zipimporter


def forget_zip_importers() -> None:
    """Drop the importers of zip archives from Python's cache. The next import from an archive makes a new one."""
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):
            del sys.path_importer_cache[path]
