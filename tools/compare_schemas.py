"""Comparison of the declarations in `wire` with Kafka's own schemas, which are copied to tests/data/protocol.

Both sides are converted to the same rows, one for each field of each message: its path, type, versions, nullable
versions, tag, whether it is ignorable, and its default. `python -m tools.compare_schemas` prints the differences and
exits with 1 if there are any. Properties without influence on the bytes (entityType, mapKey, zeroCopy) are left out. So
are messages without any remaining version, and the two headers, which `wire.header` encodes by hand.
"""

import json
import pkgutil
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from wire import stored
from wire.apis import APIS
from wire.declare import Message, Request, Response, Stored
from wire.schema import Field, Type, fields_of
from wire.stored import framing
from wire.stored.framing import CoordinatorKey, CoordinatorValue, FramedRecord
from wire.versions import Versions, parse_versions

PROTOCOL = Path(__file__).parents[1] / "tests/data/protocol"
HEADERS = {"RequestHeader", "ResponseHeader"}
# These are attributes of a class; a field with such a name gets an underscore.
OWN_NAMES = {"key", "versions", "flexible"}
CODES = {
    "?": "bool",
    "b": "int8",
    "h": "int16",
    "H": "uint16",
    "i": "int32",
    "I": "uint32",
    "q": "int64",
    "d": "float64",
    "16s": "uuid",
}
INTEGERS = {"int8", "int16", "uint16", "int32", "uint32", "int64"}
ZEROS = {"float64": 0.0, "uuid": bytes(16), "string": "", "bytes": b"", "records": None}
NEW = "a new one"  # the default value of a struct

Schema = dict[str, Any]


class Row(NamedTuple):
    """The properties of one field of a message."""

    path: str
    type: str
    versions: Versions
    nullable: Versions
    tag: int | None
    ignorable: bool
    default: Any


def schemas() -> Iterator[Schema]:
    """Map the name of each message that has a version to Kafka's schema."""
    for line in (PROTOCOL / "messages.jsonl").read_text().splitlines():
        schema = json.loads(line)
        if schema["validVersions"] != "none" and schema["name"] not in HEADERS:
            yield schema


def declarations() -> dict[str, type[Message]]:
    """Map the name of each declared message to its class."""
    found: dict[str, type[Message]] = {}
    for api in APIS.values():
        found |= {cls.__name__: cls for cls in (api.request, api.response)}
    for module in pkgutil.iter_modules(stored.__path__, "wire.stored."):
        for name, cls in vars(import_module(module.name)).items():
            if isinstance(cls, type) and issubclass(cls, Stored) and cls.__module__ == module.name != framing.__name__:
                found[name] = cls
    return found


def compare(schema: Schema, cls: type[Message]) -> Iterator[str]:
    """Yield a line for each difference between a declaration and its schema."""
    name = schema["name"]
    for fact, value in (("validVersions", cls.versions), ("flexibleVersions", cls.flexible), ("apiKey", _key(cls))):
        if schema.get(fact) != value:
            yield f"{name}: {fact} is {schema.get(fact)}, declared {value}"
    rows = list(_schema_rows(schema["fields"], name, _common(schema)))
    declared = list(_declared_rows(cls, name))
    for row, ours in zip(rows, declared, strict=False):
        if row != (ours._replace(type=row.type) if _is_named(ours.type, row.type, name) else ours):
            yield f"{row}\n    declared {ours}"
    for extra in rows[len(declared) :]:
        yield f"{extra.path} is not declared"
    for extra in declared[len(rows) :]:
        yield f"{extra.path} is not in the schema"


def differences() -> Iterator[str]:
    """Yield all differences, including messages that only one side has."""
    declared, known = declarations(), {schema["name"]: schema for schema in schemas()}
    yield from (f"{name} is not declared" for name in sorted(known.keys() - declared.keys()))
    yield from (f"{name} is not in the schemas" for name in sorted(declared.keys() - known.keys()))
    for name in sorted(known.keys() & declared.keys()):
        yield from compare(known[name], declared[name])


def _key(cls: type[Message]) -> int | None:
    if issubclass(cls, Request | Response):
        return int(cls.key)
    return cls.record_type if issubclass(cls, FramedRecord | CoordinatorKey | CoordinatorValue) else None


def snake(name: str) -> str:
    """Return SomeName or someName in snake case: some_name."""
    name = name.replace("KRaft", "Kraft")
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name[0].lower() + name[1:]).lower()


# ---- Kafka's schemas


def _common(schema: Schema) -> dict[str, list[Schema]]:
    return {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", [])}


def _schema_rows(fields: list[Schema], path: str, common: dict[str, list[Schema]]) -> Iterator[Row]:
    for field in fields:
        here = f"{path}.{snake(field['name'])}"
        yield Row(
            here,
            field["type"],
            parse_versions(field.get("versions") or field["taggedVersions"]),
            parse_versions(field.get("nullableVersions", "none")),
            field.get("tag"),
            field.get("ignorable", False),
            _schema_default(field),
        )
        bare = field["type"].removeprefix("[]")
        yield from _schema_rows(field.get("fields", common.get(bare, [])), here, common)


def _schema_default(field: Schema) -> Any:
    kind, text = field["type"], field.get("default")
    if text == "null":  # This is the word null; a JSON null means that there is no default.
        return None
    if kind.startswith("[]"):
        return []
    if kind == "bool":
        return str(text).lower() == "true"
    if kind in INTEGERS:
        return int(str(text or 0), 0)
    if kind == "string":
        return text or ""
    return ZEROS.get(kind, NEW)


# ---- our declarations


def _declared_rows(cls: type[msgspec.Struct], path: str) -> Iterator[Row]:
    for field in fields_of(cls):
        bare = field.name[:-1] if field.name[:-1] in OWN_NAMES else field.name
        here = f"{path}.{bare}"
        default = (
            NEW
            if isinstance(field.default, msgspec.Struct) and field.default == type(field.default)()
            else field.default
        )
        yield Row(here, _type_name(field.type), field.versions, _nullable(field), field.tag, field.ignorable, default)
        inner = field.type.struct or (field.type.item and field.type.item.struct)
        if inner:
            yield from _declared_rows(inner, here)


def _nullable(field: Field) -> Versions:
    """Return the nullable versions as declared.

    If the annotation contradicts the declaration, return an empty range, which is reported as a difference.
    """
    says_none = field.optional or field.type.is_records
    consistent = says_none if field.nullable.last >= 0 or field.default is None else not field.optional
    return field.nullable if consistent else Versions(-1, -1)


def _type_name(of: Type) -> str:
    if of.item:
        return "[]" + _type_name(of.item)
    if of.fixed:
        return CODES[of.fixed.code]
    if of.struct:
        return of.struct.__name__
    return "string" if of.is_string else "bytes" if of.is_bytes else "records"


def _is_named(ours: str, kafkas: str, message: str) -> bool:
    """Whether our name stands for Kafka's name.

    If structs of two messages share a name, our name may begin with the name of the message.
    """
    array, bare = ours.startswith("[]"), kafkas.removeprefix("[]")
    names = {bare, message + bare, re.sub("(Key|Value)$", "", message) + bare}
    return array == kafkas.startswith("[]") and ours.removeprefix("[]") in names


if __name__ == "__main__":
    lines = list(differences())
    print("\n".join(lines) or f"{len(declarations())} declarations equal their schemas")
    sys.exit(bool(lines))
