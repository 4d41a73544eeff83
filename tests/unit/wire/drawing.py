"""Hypothesis strategies for messages with any values that a version can encode."""

from functools import cache
from typing import Any

import msgspec
from hypothesis import strategies as st

from wire.schema import Field, Type, fields_of

FIXED: dict[str, st.SearchStrategy[Any]] = {
    "b": st.integers(-(2**7), 2**7 - 1),
    "h": st.integers(-(2**15), 2**15 - 1),
    "H": st.integers(0, 2**16 - 1),
    "i": st.integers(-(2**31), 2**31 - 1),
    "I": st.integers(0, 2**32 - 1),
    "q": st.integers(-(2**63), 2**63 - 1),
    "d": st.floats(allow_nan=False, allow_infinity=False),
    "?": st.booleans(),
    "16s": st.binary(min_size=16, max_size=16),
}
STRINGS = st.text(max_size=6) | st.sampled_from(["é" * 100, "long" * 5000])
BYTES = st.binary(max_size=6) | st.sampled_from([b"b" * 200, b"b" * 20_000])


@cache
def messages(cls: type[msgspec.Struct], version: int) -> st.SearchStrategy[Any]:
    """Return a strategy for instances of `cls` that differ from the defaults only in fields of `version`."""
    fields = [field for field in fields_of(cls) if version in field.versions]
    return st.builds(cls, **{field.name: values(field, version) for field in fields})


def values(field: Field, version: int) -> st.SearchStrategy[Any]:
    """Return a strategy for the values of one field, including null where allowed. Tagged fields often have their
    default.
    """
    drawn = of_type(field.type, version)
    if version in field.nullable:
        drawn = st.none() | drawn
    if field.tag is not None and not (field.default is None and version not in field.nullable):
        drawn = st.builds(lambda: fields_default(field)) | drawn
    return drawn


def of_type(of: Type, version: int) -> st.SearchStrategy[Any]:
    """Return a strategy for the values of a type, without null."""
    if of.fixed:
        return FIXED[of.fixed.code]
    if of.struct:
        return messages(of.struct, version)
    if of.item:
        return st.lists(of_type(of.item, version), max_size=2)
    return STRINGS if of.is_string else BYTES


def fields_default(field: Field) -> Any:
    """Return the default of a field; if it is a list, return a new list."""
    return list(field.default) if isinstance(field.default, list) else field.default
