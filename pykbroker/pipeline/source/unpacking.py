"""The unpacking of a reader or a writer in an executor, which names what the Python of the executor lacks.

The function of this module is pickled with the reader or writer, since an executor without pykbroker cannot import it.
So it imports all that it needs itself.
"""

from __future__ import annotations


def unpacked(version: str, packed: bytes) -> object:
    """Return a reader or a writer. Raise RuntimeError if this Python lacks pykbroker or a package that it needs."""
    import pickle
    import platform
    import sys

    where = f"the Python of this Spark executor ({sys.executable} on {platform.node()})"
    install = (
        f"Install pykbroker[spark]=={version} for it, or let Spark send an environment: set spark.archives to a packed "
        "one, and PYSPARK_PYTHON to its Python"
    )
    try:
        from pykbroker.core.version import VERSION
        from pykbroker.pipeline.source.worker_reuse import acknowledge_input

        acknowledge_input()
        if version != VERSION:
            raise RuntimeError(f"{where} has pykbroker {VERSION}, but the driver has {version}. {install}")
        kind, state = pickle.loads(packed)  # noqa: S301 - Spark has authenticated the driver
        made = kind.__new__(kind)
        made.__setstate__(state)
        return made
    except ImportError as error:
        raise RuntimeError(f"{where} lacks a package that the format pykbroker needs: {error}. {install}") from error
