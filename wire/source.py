"""The source code of a function under construction, and the objects that it refers to."""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

import msgspec

from wire.declare import Message
from wire.schema import Field
from wire.versions import parse_versions

ARRAY_COUNTS_MAX = 256  # the number of array lengths whose `struct.Struct` is cached


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
        """Append lines at the current indentation."""
        margin = "    " * self._depth
        self._lines += [margin + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Append `head`, and indent the lines that are added within the `with` block."""
        self.add(head)
        self._depth += 1
        yield
        self._depth -= 1

    def local(self, hint: str) -> str:
        """Return an unused name."""
        self._names += 1
        return f"{hint}_{self._names}"

    def constant(self, value: Any) -> str:
        """Return an expression for `value`: a literal, or the name of a global."""
        if value is None or isinstance(value, bool | int | str | bytes):
            return repr(value)
        name = self.local("K")
        self.globals[name] = value
        return name

    def default(self, field: Field) -> str:
        """Return an expression for the default of a field, which creates a new object if the default is mutable."""
        value = field.default
        if isinstance(value, list):
            return "[]"
        if isinstance(value, msgspec.Struct) and not value.__struct_config__.frozen:
            return f"{self.constant(type(value))}()"
        return self.constant(value)

    def fixed(self, method: str, codes: str) -> str:
        """Return the name of `pack` or `unpack_from` of the `struct.Struct` with these codes."""
        name = f"{method}_{codes.replace('?', 'z')}"
        if name not in self.globals:
            self.globals[name] = getattr(struct.Struct(">" + codes), method)
        return name

    def fixed_array(self, method: str, code: str) -> str:
        """Return the name of a function that returns `pack` or `unpack_from` for an array of a given length."""
        name = f"{method}_array_{code.replace('?', 'z')}"
        self.globals[name] = _of_count(method, code)
        return name

    def build(self, head: str) -> Callable[..., Any]:
        """Compile and return the function. Its attribute `source` has the source code."""
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
