"""The generator of encoders for one class in one version.

One `struct.Struct` packs adjacent fixed-size values, lengths and empty tag sections. Nested structs are inlined. Bytes
and records become separate buffers without a copy.
"""

from collections.abc import Callable, Generator
from functools import cache
from typing import Any

import msgspec

from wire.declare import STRING_BYTES_MAX, Fixed, Message, StoredPart
from wire.errors import EncodeError
from wire.schema import UNKNOWN_TAGS, Field, Type, fields_of
from wire.source import Source
from wire.varint import UVARINTS, uvarint


@cache
def compile_encoder(cls: type[Message], version: int) -> Callable[..., None]:
    """Return the function `encode(message, out)` that `wire.compile.encoder` describes."""
    return _Encoder(cls, version, stepwise=False).function(cls)


@cache
def compile_stepwise_encoder(cls: type[Message], version: int) -> Callable[..., Generator[None]]:
    """Return the encoder as the generator that `wire.compile.stepwise_encoder` describes."""
    return _Encoder(cls, version, stepwise=True).function(cls)


class _Encoder(Source):
    def __init__(self, cls: type[Message], version: int, *, stepwise: bool) -> None:
        super().__init__(cls, version)
        self._stepwise = stepwise
        self._codes = ""  # codes of the adjacent values to pack together, and expressions for all codes but "x"
        self._values: list[str] = []
        self.globals.update(
            EncodeError=EncodeError,
            UVARINTS=UVARINTS,
            uvarint=uvarint,
            tag_section=tag_section,
            joined_uuids=joined_uuids,
        )

    def function(self, cls: type[Message]) -> Callable[..., Any]:
        self.add("start = len(out)")
        with self.block("try:"):
            self.add("put = out.append")
            self._struct(cls, "message")
            self._flush()
            if self._stepwise:
                self.add("yield")
        with self.block("except Exception as error:"):
            self.add("del out[start:]", f"raise EncodeError(f'{self.title}: {{error}}') from error")
        return self.build("def encode(message, out):")

    def _gather(self, code: str, value: str) -> None:
        self._codes += code
        self._values.append(value)

    def _flush(self) -> None:
        if self._values:
            self.add(f"put({self.fixed('pack', self._codes)}({', '.join(self._values)}))")
        elif self._codes:
            self.add(f"put({bytes(len(self._codes))!r})")
        self._codes, self._values = "", []

    def _struct(self, cls: type[msgspec.Struct], name: str) -> None:
        """Generate code that writes the fields of the struct in the local `name`."""
        tagged = []
        for field in fields_of(cls):
            if self.version not in field.versions:
                if not field.ignorable:
                    reason = f"{cls.__name__}.{field.name} is not in this version"
                    self.add(f"if {self._differs(field, name)}: raise EncodeError({reason!r})")
            elif field.tag is None:
                self._field(field, name)
            else:
                tagged.append(field)
        if self.flexible:
            self._tags(cls, tagged, name)

    def _differs(self, field: Field, name: str) -> str:
        """Return an expression that is true if the field of the struct in the local `name` differs from its default."""
        value, default = f"{name}.{field.name}", field.default
        if default is None:
            return f"{value} is not None"
        if default == [] and field.optional:
            return f"({value} or {value} is None)"
        if default is False or default == []:
            return value
        constant = self.default(field)
        if isinstance(default, msgspec.Struct) and default.__struct_config__.frozen:
            return f"({value} is not {constant} and {value} != {constant})"
        return f"{value} != {constant}"

    def _field(self, field: Field, name: str) -> None:
        value = f"{name}.{field.name}"
        if field.type.fixed:
            self._fixed(field.type.fixed, value)
            return
        local = self.local(field.name)
        self.add(f"{local} = {value}")
        nullable = self.version in field.nullable
        if field.type.struct and nullable:
            self._flush()
            null = b"\xff" if field.tag is None else b"\0"  # null markers of KIP-893; see `compile_decoder`
            self.add(f"if {local} is None: put({null!r})")
            with self.block("else:"):
                self._gather("b", "1")
                self._struct(field.type.struct, local)
                self._flush()
        else:
            self._value(field.type, local, nullable)

    def _fixed(self, fixed: Fixed, value: str) -> None:
        if fixed.code == "16s":
            self.add(f"if len({value}) != 16: raise EncodeError('a UUID has 16 bytes')")
        self._gather(fixed.code, value)

    def _value(self, of: Type, local: str, nullable: bool) -> None:
        if of.fixed:
            self._fixed(of.fixed, local)
        elif of.struct:
            self._struct(of.struct, local)
        else:
            self._sized(of, local, nullable)

    def _sized(self, of: Type, local: str, nullable: bool) -> None:
        length = self.local("n")
        if of.is_string:
            self.add(
                f"{local} = {local}.encode()"
                if not nullable
                else f"{local} = None if {local} is None else {local}.encode()"
            )
        self.add(f"{length} = len({local})" if not nullable else f"{length} = -1 if {local} is None else len({local})")
        self._length(length, of)
        if of.item:
            self._array(of.item, local, nullable)
        elif nullable or of.is_records:
            self.add(f"if {length} > 0: put({local})")
        else:
            self.add(f"put({local})")

    def _length(self, length: str, of: Type) -> None:
        """Generate code that writes a length, or -1 for null. The compact encoding writes the length plus one."""
        if not self.flexible:
            self._gather("h" if of.is_string else "i", length)
            self._flush()
            return
        self._flush()
        if of.is_string:
            self.add(f"if {length} > {STRING_BYTES_MAX}: raise EncodeError('a string of more than 32767 bytes')")
        self.add(f"put(UVARINTS[{length} + 1] if {length} < 1023 else uvarint({length} + 1))")

    def _array(self, item: Type, local: str, nullable: bool) -> None:
        if item.fixed and item.fixed.code == "16s":
            self.add(f"if {local}: put(joined_uuids({local}))")
        elif item.fixed:
            pack = self.fixed_array("pack", item.fixed.code)
            self.add(f"if {local}: put({pack}(len({local}))(*{local}))")
        else:
            element = self.local("x")
            with self.block(f"for {element} in {local} or ():" if nullable else f"for {element} in {local}:"):
                self._value(item, element, False)
                self._flush()
                if self._stepwise:
                    self.add("yield")

    def _tags(self, cls: type[msgspec.Struct], tagged: list[Field], name: str) -> None:
        """Generate code that writes the tag section.

        An empty section, the usual case, is packed with the adjacent values.
        """
        keeps = issubclass(cls, StoredPart)
        tests = [self._differs(field, name) for field in tagged] + [f"{name}.{UNKNOWN_TAGS}"] * keeps
        if not tests:
            self._codes += "x"
            return
        codes, values = self._codes, self._values
        with self.block(f"if {' or '.join(tests)}:"):
            self._flush()
            self._full_tags(list(zip(tagged, tests, strict=False)), name, keeps)
        with self.block("else:"):
            self._codes, self._values = codes + "x", values
            self._flush()

    def _full_tags(self, tagged: list[tuple[Field, str]], name: str, keeps: bool) -> None:
        tags, outer = self.local("tags"), self.local("put")
        self.add(f"{tags} = dict({name}.{UNKNOWN_TAGS})" if keeps else f"{tags} = {{}}", f"{outer} = put")
        part = self.local("part")
        for field, test in tagged:
            with self.block(f"if {test}:"):
                self.add(f"{part} = []", f"put = {part}.append")
                self._field(field, name)
                self._flush()
                self.add(f"{tags}[{field.tag}] = b''.join({part})")
        self.add(f"put = {outer}", f"put(tag_section({tags}))")


def tag_section(tags: dict[int, bytes]) -> bytes:
    """Return the encoded tagged fields of a struct, in the order of their tags."""
    parts = [uvarint(len(tags))]
    for tag, value in sorted(tags.items()):
        parts += uvarint(tag), uvarint(len(value)), value
    return b"".join(parts)


def joined_uuids(uuids: list[bytes]) -> bytes:
    """Return the encoded elements of an array of UUIDs."""
    joined = b"".join(uuids)
    if any(len(uuid) != 16 for uuid in uuids):
        raise EncodeError("a UUID has 16 bytes")
    return joined
