"""The Python of the executors of a cluster: what tasks need there, and how they get it.

Tasks need this package with its dependencies, of which some are compiled, and pyarrow and pandas. What the Python of
the executors has is used. The rest is sent as an archive that each executor unpacks into its working directory.
"""

from __future__ import annotations

import os
import re
import sys
import tarfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import cache_from_source, find_spec
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from pykbroker.core.version import VERSION
from pykbroker.pipeline.errors import PipelineError
from pykbroker.pipeline.report import Say
from pykbroker.pipeline.spark_errors import root_cause, trace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OWN = ("pykbroker", "wire")
"""The packages of this distribution."""
NEEDED = ("pykbroker", "msgspec", "trio", "fastcrc", "cramjam", "pyarrow", "pandas", "fastavro")
"""The distributions that tasks import."""
NOT_SENT = frozenset(("pyspark", "py4j", "pykbroker"))
"""Distributions that are never sent: those that an executor has, and this one, whose files may lie in a checkout."""
UNUSED = frozenset(("tests", "include"))
"""The directories of distributions that no task imports from, a fifth of what is sent."""
UNPACKED = "pykbroker-packages"
_NAME = re.compile(r"^[A-Za-z0-9._-]+")


def equip_executors(spark: SparkSession, say: Say) -> None:
    """Make the executors able to run tasks of this package. Raise PipelineError with the names of what they lack."""
    missing = missing_modules(spark)
    if not missing:
        return
    say(f"the Python of the executors lacks {', '.join(sorted(missing))}: sending them")
    context: Any = spark.sparkContext
    path = Path(context._temp_dir) / f"{UNPACKED}.tar"  # the driver serves it until Spark deletes this directory
    pack(path, missing)
    context.addArchive(f"{path}#{UNPACKED}")
    here = dict.fromkeys(str(each.locate_file("")) for each in closure(NEEDED))
    own = str(Path(package_directory(OWN[0])).parent)
    # the driver plans queries with this Python and environment, too, and finds the packages where they are installed
    context.environment["PYTHONPATH"] = os.pathsep.join((UNPACKED, own, *here))
    if still := missing_modules(spark):
        reasons = "; ".join(f"{name} ({why})" for name, why in sorted(still.items()))
        raise PipelineError(
            f"the Python of the executors cannot import {reasons}: install `pykbroker[spark]` there, or set "
            "PYSPARK_PYTHON to a Python that has it"
        )


def missing_modules(spark: SparkSession) -> dict[str, str]:
    """Return what the Python of the executors cannot import, with reasons. Raise PipelineError if it cannot run."""
    names, wanted = NEEDED, VERSION

    def probe(_: Any) -> Iterator[tuple[str, str]]:
        from importlib import import_module

        for name in names:
            try:
                import_module(name)
                found = import_module("pykbroker.core.version").VERSION if name == "pykbroker" else wanted
            except Exception as error:  # noqa: BLE001 - whatever an import raises is the reason
                yield name, f"{type(error).__name__}: {error}"
            else:
                if found != wanted:
                    yield name, f"version {found} in place of {wanted}"

    probe.__module__ = "__main__"  # so that it is pickled with its code, since executors may lack this module
    context = spark.sparkContext
    slots = max(1, context.defaultParallelism)
    try:
        return dict(context.parallelize(range(slots), slots).mapPartitions(probe).collect())
    except Exception as error:
        raise PipelineError(
            f"the executors cannot run Python: {root_cause(trace(error))}: set PYSPARK_PYTHON to a Python "
            f"{sys.version_info[0]}.{sys.version_info[1]} that all of them have"
        ) from error


def add_compiled(archive: tarfile.TarFile, source: Path, directory: PurePath) -> None:
    """Add the compiled form of a module to the same directory of an archive, if there is one. pip may not list it."""
    if source.suffix != ".py":
        return
    compiled = Path(cache_from_source(str(source)))
    if compiled.is_file():
        archive.add(compiled, str(directory / "__pycache__" / compiled.name))


def pack(path: Path, missing: Iterable[str]) -> None:
    """Write a tar file with some distributions and all that they require. Raise PipelineError if one is missing here.

    It is not compressed: an executor reads it once, and compressing takes longer than sending it. It has the compiled
    modules of installed distributions, without which each worker takes seconds to compile them.
    """
    with tarfile.open(path, "w") as archive:
        for name in OWN if "pykbroker" in missing else ():
            archive.add(package_directory(name), name, filter=_without_caches)
        for found in closure(missing):
            for file in found.files or ():
                source = Path(str(file.locate()))
                if UNUSED.isdisjoint(file.parts) and ".." not in file.parts and is_sent(source):
                    archive.add(source, str(file))
                    add_compiled(archive, source, file.parent)


def is_sent(source: Path) -> bool:
    """Whether a path is that of a file which an executor may need. Compiled modules come with their sources."""
    return source.is_file() and source.suffix != ".pyc"


def package_directory(name: str) -> str:
    """Return the directory of a package of this distribution."""
    spec = find_spec(name)
    assert spec is not None, "this package is imported"
    assert spec.submodule_search_locations, "it is a directory"
    return str(next(iter(spec.submodule_search_locations)))


def _without_caches(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in entry.name else entry


def closure(names: Iterable[str]) -> list[Distribution]:
    """Return distributions and all that they require, except those that are never sent."""
    found: dict[str, Distribution] = {}
    queue = list(names)
    while queue:
        name = queue.pop().lower().replace("_", "-")
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            raise PipelineError(f"{name} is not installed here: run `pip install 'pykbroker[spark]'`") from None
        queue += requirements(found[name].requires or ())
    return [each for name, each in sorted(found.items()) if name not in NOT_SENT]


def requirements(texts: Iterable[str]) -> list[str]:
    """Return the names of requirements, without those of extras and of other platforms that are not installed."""
    names = []
    for text in texts:
        match = _NAME.match(text)
        if match is None or "extra ==" in text:
            continue
        if ";" in text and not _is_installed(match[0]):
            continue
        names.append(match[0])
    return names


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
