"""The types of columns for an Avro schema: in Arrow, in JSON, and the conversion of values between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Required, TypedDict
from uuid import UUID

from msgspec import Meta

from pykbroker.client.arrow import pyarrow
from pykbroker.pipeline.errors import PipelineError

INT32, INT64 = 1 << 31, 1 << 63
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROS = {"millis": 1000, "micros": 1}
"""The microseconds of the unit at the end of a logical type's name."""
DECIMAL_DIGITS_MAX = 38

typed_dict: Any = TypedDict  # the function, which a type checker only knows with literal arguments
Convert = Callable[[Any], Any]


class ColumnType(NamedTuple):
    """The type of a column: in Arrow, and in JSON as msgspec takes it.

    `convert` turns a decoded value into one that Arrow takes, and is None if none has to be converted.
    """

    arrow: Any
    json: Any
    convert: Convert | None = None
    is_nullable: bool = False


def column_type(schema: Any, place: str = "the record", outer: Mapping[str, Any] | None = None) -> ColumnType:
    """Return the type of a parsed schema. Raise PipelineError for a schema that no column has."""
    types = AvroTypes(dict(outer or {}))
    return types.of(schema, place)


class AvroTypes:
    """The types of one schema. `named` has the definitions seen so far, by their full names."""

    def __init__(self, named: dict[str, Any]) -> None:
        self._named, self._open = named, set[str]()

    def of(self, schema: Any, place: str) -> ColumnType:
        """Return the type of a schema at a place, such as `order.amount`."""
        if isinstance(schema, list):
            return self._union(schema, place)
        if isinstance(schema, str):
            return _plain(schema) or self._reference(schema, place)
        kind = schema["type"]
        if logical := _logical(schema, place):
            return logical
        if kind in ("record", "enum", "fixed"):
            self._named[schema["name"]] = schema
        if kind == "record":
            return self._record(schema, place)
        if kind == "enum":
            return ColumnType(pyarrow().string(), Literal[tuple(schema["symbols"])])
        if kind == "fixed":
            size = schema["size"]
            return ColumnType(pyarrow().binary(), Annotated[bytes, Meta(min_length=size, max_length=size)])
        if kind == "array":
            item = self.of(schema["items"], f"{place}[]")
            convert = None if item.convert is None else partial(_each, item.convert)
            return ColumnType(pyarrow().list_(item.arrow), list[item.json], convert)  # type: ignore[name-defined]
        if kind == "map":
            item = self.of(schema["values"], f"{place}{{}}")
            json = dict[str, item.json]  # type: ignore[name-defined]
            return ColumnType(pyarrow().map_(pyarrow().string(), item.arrow), json, partial(_pairs, item.convert))
        return self.of(kind, place)

    def _reference(self, name: str, place: str) -> ColumnType:
        if name == "null":
            raise PipelineError(f"{place} of the schema is null, which is no type of a column")
        if name in self._open:
            raise PipelineError(f"{place} of the schema contains itself ({name}), which no column can")
        if name not in self._named:
            raise PipelineError(f"{place} of the schema has the unknown type {name}")
        return self.of(self._named[name], place)

    def _union(self, branches: list[Any], place: str) -> ColumnType:
        others = [branch for branch in branches if branch != "null"]
        if len(others) != 1:
            raise PipelineError(
                f"{place} of the schema is a union of {len(others)} types besides null: give a reader schema in which "
                "it has one"
            )
        found = self.of(others[0], place)
        if len(others) == len(branches):
            return found
        convert = None if found.convert is None else partial(_unless_null, found.convert)
        return ColumnType(found.arrow, found.json | None, convert, True)

    def _record(self, schema: Any, place: str) -> ColumnType:
        self._open.add(schema["name"])
        types = {each["name"]: self.of(each["type"], f"{place}.{each['name']}") for each in schema["fields"]}
        self._open.discard(schema["name"])
        defaults = {
            each["name"]: _default(types[each["name"]], each["default"])
            for each in schema["fields"]
            if "default" in each
        }
        json = typed_dict(
            schema["name"],
            {
                name: NotRequired[each.json] if name in defaults or each.is_nullable else Required[each.json]
                for name, each in types.items()
            },
        )
        arrow = pyarrow().struct([(name, each.arrow) for name, each in types.items()])
        converts = {name: each.convert for name, each in types.items() if each.convert is not None}
        filled = {name: value for name, value in defaults.items() if value is not None}
        convert = partial(_record, converts, filled) if converts or filled else None
        return ColumnType(arrow, json, convert)


def _plain(name: str) -> ColumnType | None:
    """Return the type of a primitive type, or None for the name of a definition."""
    pa = pyarrow()
    return {
        "boolean": ColumnType(pa.bool_(), bool),
        "int": ColumnType(pa.int32(), Annotated[int, Meta(ge=-INT32, lt=INT32)]),
        "long": ColumnType(pa.int64(), Annotated[int, Meta(ge=-INT64, le=INT64 - 1)]),
        "float": ColumnType(pa.float32(), float),
        "double": ColumnType(pa.float64(), float),
        "bytes": ColumnType(pa.binary(), bytes),
        "string": ColumnType(pa.string(), str),
    }.get(name)


def _logical(schema: Any, place: str) -> ColumnType | None:
    """Return the type of a logical type. One that is unknown is None, as Avro demands."""
    pa, name = pyarrow(), schema.get("logicalType", "")
    if name == "decimal":
        precision, scale = schema["precision"], schema.get("scale", 0)
        if precision > DECIMAL_DIGITS_MAX:
            raise PipelineError(
                f"{place} of the schema has {precision} digits, and a column at most {DECIMAL_DIGITS_MAX}"
            )
        return ColumnType(pa.decimal128(precision, scale), Decimal, partial(_decimal, scale))
    if name == "date":
        return ColumnType(pa.date32(), date, _date)
    if name == "uuid":
        return ColumnType(pa.string(), UUID, str)
    kind, _, unit = name.rpartition("-")
    if unit not in MICROS:
        return None
    if kind == "timestamp":
        return ColumnType(pa.timestamp("us", "UTC"), datetime | int, partial(_instant, MICROS[unit]))
    if kind == "local-timestamp":
        return ColumnType(pa.timestamp("us"), datetime | int, partial(_local, MICROS[unit]))
    if kind == "time":
        arrow = pa.int32() if unit == "millis" else pa.int64()
        return ColumnType(arrow, int, partial(_of_day, MICROS[unit]))
    return None


# ---- conversions


def _each(convert: Convert, values: list[Any]) -> list[Any]:
    return [convert(value) for value in values]


def _pairs(convert: Convert | None, values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return list(values.items()) if convert is None else [(name, convert(value)) for name, value in values.items()]


def _unless_null(convert: Convert, value: Any) -> Any:
    return None if value is None else convert(value)


def _record(converts: Mapping[str, Convert], defaults: Mapping[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    found = {**defaults, **value}
    for name, convert in converts.items():
        if found.get(name) is not None or name in value:
            found[name] = convert(found[name])
    return found


def _decimal(scale: int, value: Decimal | bytes) -> Decimal:
    if isinstance(value, bytes):
        return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale)
    return value


def _date(value: date | int) -> date:
    return date(1970, 1, 1) + timedelta(days=value) if isinstance(value, int) else value


def _instant(micros: int, value: datetime | int) -> datetime:
    if isinstance(value, int):
        return EPOCH + timedelta(microseconds=value * micros)
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _local(micros: int, value: datetime | int) -> datetime:
    return _instant(micros, value).replace(tzinfo=None)


def _of_day(micros: int, value: time | int) -> int:
    if isinstance(value, int):
        return value
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return (seconds * 1_000_000 + value.microsecond) // micros


def _default(kind: ColumnType, value: Any) -> Any:
    """Return the default of a field as a decoded value. Avro writes bytes as text of one character a byte."""
    is_bytes = pyarrow().types.is_binary(kind.arrow) or pyarrow().types.is_decimal(kind.arrow)
    return value.encode("latin-1") if is_bytes and isinstance(value, str) else value
