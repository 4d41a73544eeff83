"""The text of a function while it is being written, and the objects that it names."""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

import msgspec

from wire.declare import Message
from wire.schema import Field
from wire.versions import parse_versions

ARRAY_COUNTS_MAX = 256  # lengths of fixed-size arrays whose `struct.Struct` is kept


class Source:
    """Lines of Python for the codec of one class in one version. Names of locals and globals are unique."""

    def __init__(self, cls: type[Message], version: int) -> None:
        if version not in parse_versions(cls.versions):
            raise ValueError(f"{cls.__name__} has no version {version}")
        self.title = f"{cls.__name__} v{version}"
        self.version = version
        self.flexible = version in parse_versions(cls.flexible)
        self.globals: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 1
        self._names = 0

    def add(self, *lines: str) -> None:
        """Appends lines at the present depth."""
        margin = "    " * self._depth
        self._lines += [margin + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """What is added inside is indented below `head`."""
        self.add(head)
        self._depth += 1
        yield
        self._depth -= 1

    def local(self, hint: str) -> str:
        """A fresh name."""
        self._names += 1
        return f"{hint}_{self._names}"

    def constant(self, value: Any) -> str:
        """An expression for `value`: literal, or the name under which the function finds it."""
        if value is None or isinstance(value, bool | int | str | bytes):
            return repr(value)
        name = self.local("K")
        self.globals[name] = value
        return name

    def default(self, field: Field) -> str:
        """An expression for the default of a field; a mutable one is fresh each time."""
        value = field.default
        if isinstance(value, list):
            return "[]"
        if isinstance(value, msgspec.Struct) and not value.__struct_config__.frozen:
            return f"{self.constant(type(value))}()"
        return self.constant(value)

    def fixed(self, method: str, codes: str) -> str:
        """The name of a method, `pack` or `unpack_from`, of the `struct.Struct` of these codes."""
        name = f"{method}_{codes.replace('?', 'z')}"
        if name not in self.globals:
            self.globals[name] = getattr(struct.Struct(">" + codes), method)
        return name

    def fixed_array(self, method: str, code: str) -> str:
        """The name of a function from a count to that method for an array of so many values of one code."""
        name = f"{method}_array_{code.replace('?', 'z')}"
        self.globals[name] = _of_count(method, code)
        return name

    def build(self, head: str) -> Callable[..., Any]:
        """The function, whose text stays readable in its attribute `source`."""
        text = "\n".join([head, *self._lines, ""])
        exec(compile(text, f"<{self.title}>", "exec"), self.globals)
        function: Callable[..., Any] = self.globals[head[4 : head.index("(")]]
        function.source = text  # type: ignore[attr-defined]
        return function


@cache
def _of_count(method: str, code: str) -> Callable[[int], Any]:
    @lru_cache(maxsize=ARRAY_COUNTS_MAX)
    def of_count(count: int) -> Any:
        return getattr(struct.Struct(f">{count}{code}"), method)

    return of_count
