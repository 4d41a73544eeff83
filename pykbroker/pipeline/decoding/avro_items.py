"""The bound on the items of an Avro array that take no bytes.

An array of nulls, or of records without content, names billions of items in ten bytes, which fastavro makes or skips
one by one. All other items take at least one byte, so that the size of the value bounds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from pykbroker.pipeline.decoding.bad_record import BadRecord

EMPTY_ITEMS_MAX = 1 << 16
"""The items without bytes that a value may have in all its arrays."""
_VARINT_BYTES_MAX = 10
_FIXED_BYTES = {"null": 0, "boolean": 1, "float": 4, "double": 8}

Schema: TypeAlias = Any
"""A schema as fastavro has parsed it."""
CheckItems: TypeAlias = Callable[[bytes], None]


def item_check(schema: Schema) -> CheckItems | None:
    """Return a function that raises BadRecord for a value with too many items without bytes, or None if none can have.

    The function raises IndexError for a value that is cut off.
    """
    names = {each["name"]: each for each in _parts(schema) if "name" in each}
    arrays = [each["items"] for each in _parts(schema) if each["type"] == "array"]
    if not any(_is_empty(each, names, frozenset()) for each in arrays):
        return None
    return lambda value: _Value(value, names).skip(schema)


def _parts(schema: Schema) -> Iterator[dict[str, Any]]:
    """Yield the schemas inside a schema that are objects, and the schema itself."""
    if isinstance(schema, list):
        for each in schema:
            yield from _parts(each)
    elif isinstance(schema, dict):
        yield schema
        for each in (schema["type"], schema.get("items"), schema.get("values")):
            yield from _parts(each)
        for field in schema.get("fields", ()):
            yield from _parts(field["type"])


def _is_empty(schema: Schema, names: dict[str, Schema], outer: frozenset[str]) -> bool:
    """Whether values of a schema take no bytes. `outer` has the names of the records around it."""
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(schema, str) and schema in names:
        return schema in outer or _is_empty(names[schema], names, outer)
    if isinstance(kind, dict):
        return _is_empty(kind, names, outer)
    if kind in ("record", "error"):
        inside = outer | {schema["name"]}
        return all(_is_empty(field["type"], names, inside) for field in schema["fields"])
    return bool(kind == "null" or (kind == "fixed" and schema["size"] == 0))


class _Value:
    """An Avro value, of which only the lengths and counts are read."""

    def __init__(self, data: bytes, names: dict[str, Schema]) -> None:
        self._data, self._pos, self._names, self._items = data, 0, names, 0

    def skip(self, schema: Schema) -> None:
        """Move behind a value of a schema."""
        if isinstance(schema, list):
            self.skip(schema[self._long()])
            return
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, dict | list):
            self.skip(kind)
        elif kind in ("record", "error"):
            for field in schema["fields"]:
                self.skip(field["type"])
        elif kind == "array":
            self._skip_array(schema["items"])
        elif kind == "map":
            for _ in self._blocks():
                self._move(self._long())
                self.skip(schema["values"])
        elif kind in ("int", "long", "enum"):
            self._long()
        elif kind in ("bytes", "string"):
            self._move(self._long())
        elif kind == "fixed":
            self._move(schema["size"])
        elif kind in _FIXED_BYTES:
            self._move(_FIXED_BYTES[kind])
        else:
            self.skip(self._names[kind])

    def _skip_array(self, items: Schema) -> None:
        is_empty = _is_empty(items, self._names, frozenset())
        for count in self._counts():
            if is_empty:
                self._items += count
                if self._items > EMPTY_ITEMS_MAX:
                    raise BadRecord(
                        f"{self._items} items without bytes in the arrays of an Avro record: at most {EMPTY_ITEMS_MAX} "
                        "are decoded"
                    )
            else:
                for _ in range(count):
                    self.skip(items)

    def _blocks(self) -> Iterator[None]:
        for count in self._counts():
            for _ in range(count):
                yield

    def _counts(self) -> Iterator[int]:
        """Yield the number of items of each block. A negative one is followed by the bytes of the block."""
        while count := self._long():
            if count < 0:
                self._long()
            yield abs(count)

    def _move(self, size: int) -> None:
        if not 0 <= size <= len(self._data) - self._pos:
            raise IndexError(f"{size} bytes at byte {self._pos} of {len(self._data)}")
        self._pos += size

    def _long(self) -> int:
        number = 0
        for index in range(_VARINT_BYTES_MAX):
            byte = self._data[self._pos]
            self._pos += 1
            number |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                number &= (1 << 64) - 1
                return (number >> 1) ^ -(number & 1)
        raise IndexError(f"an integer of more than {_VARINT_BYTES_MAX} bytes at byte {self._pos}")
