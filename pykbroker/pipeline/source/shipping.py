"""Readers and writers that Spark copies to its executors."""

from __future__ import annotations

import pickle
from typing import Any

from pyspark import cloudpickle

from pykbroker.core.version import VERSION
from pykbroker.pipeline.source import unpacking

cloudpickle.register_pickle_by_value(unpacking)  # type: ignore[no-untyped-call]


class Shipped:
    """An object that can be unpacked only where pykbroker is installed, and otherwise says what is missing."""

    def __reduce__(self) -> tuple[Any, ...]:
        return unpacking.unpacked, (VERSION, pickle.dumps((type(self), self.__getstate__())))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
