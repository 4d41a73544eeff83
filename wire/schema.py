"""The fields of a declared class, for the compilers and for the comparison with Kafka's own schemas."""

import types
import typing
from functools import cache
from typing import Annotated, Any

import msgspec

from wire.declare import Fixed, RecordBytes, V
from wire.versions import Versions, parse_versions

UNKNOWN_TAGS = "unknown_tags"


class Type(msgspec.Struct, frozen=True):
    """The type of a field. Exactly one of `fixed`, `struct`, `item` (of array elements) and the flags is set."""

    fixed: Fixed | None = None
    struct: type[msgspec.Struct] | None = None
    item: "Type | None" = None
    is_string: bool = False
    is_bytes: bool = False
    is_records: bool = False


class Field(msgspec.Struct, frozen=True):
    """A field of a struct."""

    name: str
    type: Type
    optional: bool
    default: Any
    versions: Versions
    nullable: Versions
    tag: int | None
    ignorable: bool


@cache
def fields_of(cls: type[msgspec.Struct]) -> tuple[Field, ...]:
    """Return the fields of a declared class in wire order, without the attribute for unknown tags."""
    hints = typing.get_type_hints(cls, include_extras=True)
    blank = cls()
    names = [name for name in cls.__struct_fields__ if name != UNKNOWN_TAGS]
    return tuple(_field(name, hints[name], getattr(blank, name)) for name in names)


def _field(name: str, hint: Any, default: Any) -> Field:
    bare, marks, optional = _peel(hint)
    v = next((mark for mark in marks if isinstance(mark, V)), None) or V()
    return Field(
        name,
        _type(bare, marks),
        optional,
        default,
        parse_versions(v.versions),
        parse_versions(v.nullable),
        v.tag,
        v.ignorable,
    )


def _peel(hint: Any) -> tuple[Any, list[Any], bool]:
    """Return the type inside `Annotated` and `| None`, the annotations, and whether None was among the types."""
    marks: list[Any] = []
    optional = False
    while True:
        if typing.get_origin(hint) is Annotated:
            marks += hint.__metadata__
            hint = hint.__origin__
        elif isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
            members = [member for member in typing.get_args(hint) if member is not types.NoneType]
            optional = optional or len(members) < len(typing.get_args(hint))
            if len(members) > 1:
                return hint, marks, optional
            hint = members[0]
        else:
            return hint, marks, optional


def _type(bare: Any, marks: list[Any]) -> Type:
    for mark in marks:
        if isinstance(mark, Fixed):
            return Type(fixed=mark)
        if isinstance(mark, RecordBytes):
            return Type(is_records=True)
    if typing.get_origin(bare) is list:
        item, item_marks, _ = _peel(typing.get_args(bare)[0])
        return Type(item=_type(item, item_marks))
    if isinstance(bare, type) and issubclass(bare, msgspec.Struct):
        return Type(struct=bare)
    if bare is str:
        return Type(is_string=True)
    if bare is bytes:
        return Type(is_bytes=True)
    raise TypeError(f"{bare!r} cannot be part of a message")
