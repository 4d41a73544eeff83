"""The generator of decoders for one class in one version.

One `struct.Struct` unpacks adjacent fixed-size fields with the length or count that follows them. Nested structs are
inlined, and varints of one or two bytes are read in place. Malformed bytes are either detected by generated checks, or
cause exceptions that the decoder converts into DecodeError.
"""

import struct
from collections.abc import Callable, Generator
from functools import cache
from typing import Any

import msgspec

from wire.declare import STRING_BYTES_MAX, Buffer, Fixed, Message, Stored, StoredPart
from wire.errors import DecodeError
from wire.schema import Field, Type, fields_of
from wire.source import Source
from wire.varint import read_uvarint

COPY_BYTES_MAX = 16_384  # below this size, a copy of record bytes takes less time than a memoryview


@cache
def compile_decoder(cls: type[Message], version: int) -> Callable[..., Any]:
    """Return the function `decode(buf, pos, end) -> message` that `wire.compile.decoder` describes."""
    return _Decoder(cls, version, stepwise=False).function(cls)


@cache
def compile_stepwise_decoder(cls: type[Message], version: int) -> Callable[..., Generator[None, None, Any]]:
    """Return the decoder as the generator that `wire.compile.stepwise_decoder` describes."""
    return _Decoder(cls, version, stepwise=True).function(cls)


class _Decoder(Source):
    def __init__(self, cls: type[Message], version: int, *, stepwise: bool) -> None:
        super().__init__(cls, version)
        self._stepwise = stepwise
        self._run: list[tuple[str, int, str]] = []  # (code, size, local) of the fixed-size fields to unpack together
        self.globals.update(
            DecodeError=DecodeError,
            read_uvarint=read_uvarint,
            skip_tags=skip_tags,
            errors=(DecodeError, IndexError, struct.error, UnicodeDecodeError),
        )

    def function(self, cls: type[Message]) -> Callable[..., Any]:
        self.add(f"budget = {cls.elements_max}")
        with self.block("try:"):
            self._struct(cls, "message")
            exact = issubclass(cls, Stored) and cls.exact
            self._refuse("pos != end" if exact else "pos > end", "ends elsewhere than its frame")
            self._step()
            self.add("return message")
        with self.block("except errors as error:"):
            self.add(f"raise DecodeError(f'{self.title}: {{error}}') from None")
        return self.build("def decode(buf, pos, end):")

    def _step(self) -> None:
        if self._stepwise:
            self.add("yield")

    def _refuse(self, condition: str, reason: str) -> None:
        self.add(f"if {condition}: raise DecodeError({reason!r})")

    def _flush(self) -> None:
        if self._run:
            codes = "".join(code for code, _, _ in self._run)
            targets = ", ".join(target for _, _, target in self._run) + ("," if len(self._run) == 1 else "")
            self.add(
                f"{targets} = {self.fixed('unpack_from', codes)}(buf, pos)",
                f"pos += {sum(size for _, size, _ in self._run)}",
            )
            self._run.clear()

    def _struct(self, cls: type[msgspec.Struct], target: str) -> None:
        """Generate code that reads the fields of `cls` and constructs it with positional arguments."""
        arguments, tagged = [], []
        for field in fields_of(cls):
            if self.version not in field.versions:
                arguments.append(self.default(field))
                continue
            local = self.local(field.name)
            arguments.append(local)
            if field.tag is None:
                self._field(field, local)
            else:
                tagged.append((field, local))
        if self.flexible:
            unknown = self._tags(cls, tagged)
            if unknown:
                arguments.append(f"unknown_tags={unknown}")
        self._flush()
        self.add(f"{target} = {self.constant(cls)}({', '.join(arguments)})")

    def _field(self, field: Field, local: str) -> None:
        nullable = self.version in field.nullable
        if field.type.struct and nullable:
            self._flush()
            if field.tag is None:  # a struct follows its marker: an int8 of 1, or -1 for null (KIP-893) ...
                self.add("marker = buf[pos] < 128", "pos += 1")
            else:  # ... but in a tagged field an unsigned varint of 1, or 0 for null
                self.add("marker, pos = read_uvarint(buf, pos)")
            with self.block("if marker:"):
                self._struct(field.type.struct, local)
            with self.block("else:"):
                self.add(f"{local} = None")
        else:
            self._value(field.type, local, field.name, nullable)

    def _value(self, of: Type, local: str, name: str, nullable: bool) -> None:
        if of.fixed:
            self._run.append((of.fixed.code, of.fixed.size, local))
        elif of.struct:
            self._struct(of.struct, local)
        elif nullable:
            self._length(of)
            with self.block("if n == 0:" if self.flexible else "if n < 0:"):
                self.add(f"{local} = None")
            with self.block("else:"):
                self._sized(of, local, name)
        else:
            self._length(of)
            self._sized(of, local, name)

    def _length(self, of: Type) -> None:
        """Generate code that reads a length or count into the local `n`.

        The compact encoding stores the length plus one, and 0 for null.
        """
        if self.flexible:
            self._flush()
            self.add("n = buf[pos]", "pos += 1")
            with self.block("if n > 127:"):
                self.add("n += (buf[pos] << 7) - 128", "pos += 1", "if n > 16383: n, pos = read_uvarint(buf, pos - 2)")
        else:
            self._run.append(("h", 2, "n") if of.is_string else ("i", 4, "n"))
            self._flush()

    def _sized(self, of: Type, local: str, name: str) -> None:
        if of.item:
            self._array(of.item, local, name)
            return
        self.add("stop = pos + n - 1" if self.flexible else "stop = pos + n")
        too_long = f" or n > {STRING_BYTES_MAX + 1}" if of.is_string and self.flexible else ""
        self._refuse(f"not pos <= stop <= end{too_long}", f"length of {name}")
        if of.is_string:
            self.add(f"{local} = str(buf[pos:stop], 'utf-8')")
        elif of.is_bytes:
            self.add(f"{local} = bytes(buf[pos:stop])")
        else:
            self.add(
                f"{local} = buf[pos:stop] if stop - pos < {COPY_BYTES_MAX} and type(buf) is bytes "
                "else memoryview(buf)[pos:stop]"
            )
        self.add("pos = stop")

    def _array(self, item: Type, local: str, name: str) -> None:
        if self.flexible:
            self.add("n -= 1")
        self.add("budget -= n")
        size = item.fixed.size if item.fixed else 1
        needed = f"n * {size}" if size > 1 else "n"
        self._refuse(f"n < 0 or {needed} > end - pos or budget < 0", f"count of {name}")
        if item.fixed:
            self._fixed_array(item.fixed, local)
            return
        element, append = self.local(name), self.local("append")
        self.add(f"{local} = []", f"{append} = {local}.append")
        with self.block("for _ in range(n):"):
            self._value(item, element, name, False)
            self._flush()
            self.add(f"{append}({element})")
            self._step()

    def _fixed_array(self, fixed: Fixed, local: str) -> None:
        self.add(f"stop = pos + n * {fixed.size}")
        if fixed.code == "16s":
            self.add(f"{local} = [bytes(buf[i:i + 16]) for i in range(pos, stop, 16)]")
        else:
            self.add(f"{local} = list({self.fixed_array('unpack_from', fixed.code)}(n)(buf, pos))")
        self.add("pos = stop")

    def _tags(self, cls: type[msgspec.Struct], tagged: list[tuple[Field, str]]) -> str | None:
        """Generate code that reads a tag section.

        Return the name of the local with the unknown tags, if the struct keeps them.
        """
        count = self.local("tags")
        if self._run:
            self._run.append(("B", 1, count))
            self._flush()
        else:
            self.add(f"{count} = buf[pos]", "pos += 1")
        unknown = self.local("unknown") if issubclass(cls, StoredPart) else None
        if unknown:
            self.add(f"{unknown} = {{}}")
        if not tagged and not unknown:
            self.add(f"if {count}: pos, budget = skip_tags(buf, pos - 1, end, budget)")
            return None
        for field, local in tagged:
            self.add(f"{local} = {self.default(field)}")
        with self.block(f"if {count}:"):
            self.add(f"if {count} > 127: {count}, pos = read_uvarint(buf, pos - 1)", f"budget -= {count}")
            self._refuse(f"{count} > end - pos or budget < 0", "count of tagged fields")
            with self.block(f"for _ in range({count}):"):
                self._tag(tagged, unknown)
        return unknown

    def _tag(self, tagged: list[tuple[Field, str]], unknown: str | None) -> None:
        tag, after = self.local("tag"), self.local("after")
        self.add(f"{tag}, pos = read_uvarint(buf, pos)", f"{after}, pos = read_uvarint(buf, pos)", f"{after} += pos")
        self._refuse(f"{after} > end", "size of a tagged field")
        for field, local in tagged:
            with self.block(f"if {tag} == {field.tag}:"):
                self._field(field, local)
                self._flush()
                self._refuse(f"pos != {after}", f"size of {field.name}")
                self.add("continue")
        if unknown:
            self.add(f"{unknown}[{tag}] = bytes(buf[pos:{after}])")
        self.add(f"pos = {after}")


def skip_tags(buf: Buffer, pos: int, end: int, budget: int) -> tuple[int, int]:
    """Skip a tag section. Return the position after it and the remaining number of elements allowed in the message."""
    count, pos = read_uvarint(buf, pos)
    budget -= count
    if count > end - pos or budget < 0:
        raise DecodeError("count of tagged fields")
    for _ in range(count):
        _, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        pos += size
        if pos > end:
            raise DecodeError("size of a tagged field")
    return pos, budget
