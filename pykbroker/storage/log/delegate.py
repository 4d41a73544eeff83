"""A descriptor for the methods that `Log` takes from its parts.

It saves the memory of bound methods in thousands of logs.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Delegate(Generic[P, R]):
    """A method of `Log` that calls the method of its attribute `part`:

    `append = Delegate("appender", LogAppender.append)`.
    """

    def __init__(self, part: str, method: Callable[Concatenate[Any, P], R]) -> None:
        self._find = attrgetter(f"{part}.{method.__name__}")

    def __get__(self, log: object, owner: type) -> Callable[P, R]:
        method: Callable[P, R] = self._find(log)
        return method
