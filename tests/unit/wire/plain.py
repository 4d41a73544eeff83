"""Messages as plain values, in the form of Kafka's JsonConverters with names in snake case."""

import base64
from typing import Any

import msgspec

from tools.compare_schemas import snake
from wire.schema import Type, fields_of


def plain(message: msgspec.Struct, version: int) -> dict[str, Any]:
    """Return the fields of `version` by name, without tagged fields that have their default."""
    return {
        field.name.rstrip("_"): _value(getattr(message, field.name), field.type, version)
        for field in fields_of(type(message))
        if version in field.versions and (field.tag is None or getattr(message, field.name) != field.default)
    }


def _value(value: Any, of: Type, version: int) -> Any:
    if value is None:
        return None
    if of.item:
        return [_value(item, of.item, version) for item in value]
    if of.fixed and of.fixed.code == "16s":
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    if of.is_bytes:
        return base64.b64encode(value).decode()
    if of.is_records:
        return ""
    return plain(value, version) if isinstance(value, msgspec.Struct) else value


def snaked(node: Any) -> Any:
    """Return Kafka's JSON with names in snake case."""
    if isinstance(node, dict):
        return {snake(name[0].upper() + name[1:]): snaked(value) for name, value in node.items()}
    return [snaked(item) for item in node] if isinstance(node, list) else node
