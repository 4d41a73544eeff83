"""Requests whose values differ from each other, so that a response that mixes up two items or fields is found."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec

from wire.schema import Type, fields_of


def distinct(cls: type[msgspec.Struct], version: int, numbers: Iterator[int] | None = None) -> Any:
    """Return a message with two items in each array. Numbers of 1 byte are 2 or 3, which are valid in enumerations."""
    numbers = numbers or count(2)
    fields = [field for field in fields_of(cls) if version in field.versions]
    return cls(**{field.name: _value(field.type, version, numbers) for field in fields})


def _value(of: Type, version: int, numbers: Iterator[int]) -> Any:
    if of.struct:
        return distinct(of.struct, version, numbers)
    if of.item:
        return [_value(of.item, version, numbers), _value(of.item, version, numbers)]
    number = next(numbers)
    if of.fixed is None:
        return f"s{number}" if of.is_string else b"%d" % number
    if of.fixed.code == "16s":
        return number.to_bytes(16, "big")
    return {"b": 2 + number % 2, "?": True, "d": number / 2}.get(of.fixed.code, number)
